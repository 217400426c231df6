package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the version of this program, which its NATS service tells as well.
const version = "0.1.0"

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			a.began = true
			if a.json() {
				return a.print(map[string]string{"version": version, "revision": revision(), "go": runtime.Version()})
			}
			return a.say("%s", versionLine())
		},
	}
	a.printing(cmd)
	return cmd
}

func versionLine() string {
	return fmt.Sprintf("troupe %s (%s, %s)", version, revision(), runtime.Version())
}

// revision is the commit that the program was built from.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return "unknown revision"
}
