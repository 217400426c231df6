package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/tool"
	"github.com/troupehq/troupe/work"
	"github.com/troupehq/troupe/worker"
)

const workerLong = `Take jobs of subagents that run elsewhere: model steps and tool calls.

--serve model/NAME serves the model worker/NAME, with this process's model NAME; --serve tool/NAME
serves the tool NAME that the hosts declare as a worker's, with the tool NAME of --tools. With
--exec another program does the jobs of all services, in processes that are kept, one for each job
at a time: it gets a job as a line of JSON on stdin and answers with a line of JSON on stdout. Its
environment is what --env gives it, and nothing else. Arguments behind -- are the program's.

On SIGINT or SIGTERM no more jobs are taken; those under way get the time of --drain, and are
then given back. Any number of workers may serve the same; a job of one that dies is another's within
--lease.`

// workerFlags are the flags of worker.
type workerFlags struct {
	serve, env               []string
	exec, dir, tools, prices string
	running, attempts        int
	runningOf                map[string]int
	drain, lease             time.Duration
	level                    choice
	programArgs              []string
	program                  *worker.Program
	registry                 *tool.Registry
}

func (a *app) workerCommand() *cobra.Command {
	w := workerFlags{level: choice{"info", []string{"trace", "debug", "info", "warn", "error"}}}
	cmd := &cobra.Command{
		Use:   "worker [-- ARGUMENT…]",
		Short: "Do jobs of subagents that run elsewhere, until interrupted",
		Long:  workerLong,
		Example: `  troupe worker --serve model/builtin/extractive --nats nats://bus:4222
  troupe worker --serve tool/wordcount --exec ./wordcount.py --env PATH
  troupe worker --serve tool/render,tool/crop --exec python3 --env PATH --env FONTS=/srv/fonts -- render.py --dpi 300`,
		Args: takes("[ARGUMENT]", "[…]…"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			w.programArgs = args
			return a.worker(ctx, &w)
		}),
	}
	a.where(cmd, "URL of the NATS server (default $NATS_URL, else nats://127.0.0.1:4222)")
	f := cmd.Flags()
	f.StringSliceVar(&w.serve, "serve", nil, "what is served: tool/NAME or model/NAME, several with commas between")
	f.StringVar(&w.exec, "exec", "", "a `PROGRAM` that does the jobs")
	f.StringArrayVar(&w.env, "env", nil, "a variable of the program's: NAME=VALUE, or NAME for the value that it has here; may be repeated")
	f.StringVar(&w.dir, "dir", "", "the directory that the program runs in (default: this one)")
	f.StringVar(&w.tools, "tools", "", "a `FILE` of tools, YAML or JSON, for tool/NAME without --exec")
	f.IntVar(&w.running, "max-running", worker.DefaultRunning, "jobs at a time in this process, of all services together")
	f.StringToIntVar(&w.runningOf, "max-running-service", nil, "jobs of a service at a time in this process, as `SERVICE=N`, such as model/local=1; may be repeated")
	f.DurationVar(&w.drain, "drain", worker.DefaultDrain, "how long jobs under way may take to end when the worker is to end; 0 is not at all")
	f.DurationVar(&w.lease, "lease", bus.DefaultAckWait, "how soon a job of a worker that has died is another's; the first worker of a service decides")
	f.IntVar(&w.attempts, "attempts", bus.DefaultMaxDeliver, "how often a job is tried; the first worker of a service decides")
	pricing(cmd, &w.prices)
	f.Var(&w.level, "log-level", "what is logged, to stderr")
	return cmd
}

// worker runs until ctx ends, which is how it is meant to end.
func (a *app) worker(ctx context.Context, w *workerFlags) error {
	names, err := a.names()
	if err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return usage(err)
	}
	level, err := zerolog.ParseLevel(w.level.value)
	if err != nil {
		return usage(err)
	}
	log := zerolog.New(logTo(a.stderr)).Level(level).With().Timestamp().Logger()
	conn, err := connect(ctx, bus.Config{URL: a.url, Context: a.context, Name: "troupe worker " + strings.Join(w.serve, ","), Log: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	cfg, err := w.config(conn, names, log)
	if err != nil {
		return err
	}
	if w.program != nil {
		defer w.program.Close()
	}
	one, err := worker.New(cfg)
	if err != nil {
		return usage(err)
	}
	if err := a.say("troupe worker: %s, namespace %s, serves %s", conn.NC.ConnectedUrlRedacted(), names.Namespace(), strings.Join(w.serve, ", ")); err != nil {
		return err
	}
	if w.registry == nil {
		return one.Serve(ctx)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // the tools outlast the jobs
	done := make(chan error, 1)
	go func() { done <- w.registry.Serve(serving) }()
	err = one.Serve(ctx)
	stop()
	return errors.Join(err, <-done)
}

func (w *workerFlags) check() error {
	switch {
	case len(w.serve) == 0:
		return errors.New("--serve says what is served: tool/NAME or model/NAME")
	case w.running < 1 || w.attempts < 1 || w.lease <= 0 || w.drain < 0:
		return errors.New("--max-running and --attempts are at least 1, --lease is above zero, --drain not below")
	case w.exec == "" && (len(w.env) > 0 || w.dir != "" || len(w.programArgs) > 0):
		return errors.New("--env, --dir and arguments are for the program of --exec")
	case w.exec != "" && w.tools != "":
		return errors.New("--exec and --tools exclude each other")
	}
	return nil
}

// config says what is served, and by what.
func (w *workerFlags) config(conn *bus.Conn, names subjects.Names, log zerolog.Logger) (worker.Config, error) {
	cfg := worker.Config{
		Conn: conn, Names: names, Serve: map[string]worker.Func{}, Running: w.running, RunningOf: w.runningOf, AckWait: w.lease, MaxDeliver: w.attempts,
		Drain: w.drain, Log: log,
	}
	if w.drain == 0 {
		cfg.Drain = -1
	}
	if w.exec != "" {
		env, err := environment(w.env)
		if err != nil {
			return cfg, usage(err)
		}
		w.program, err = worker.NewProgram(worker.ProgramConfig{Command: append([]string{w.exec}, w.programArgs...), Dir: w.dir, Env: env, Log: log})
		if err != nil {
			return cfg, usage(err)
		}
		for _, name := range w.serve {
			cfg.Serve[name] = w.program.Do
		}
		return cfg, nil
	}
	brains, err := models(w.prices)
	if err != nil {
		return cfg, err
	}
	if w.registry, err = toolsOf(w.tools, conn, log); err != nil {
		return cfg, err
	}
	for _, name := range w.serve {
		s, err := work.ParseService(name)
		if err != nil {
			return cfg, usage(err)
		}
		if s.Kind == work.Tool {
			if w.registry == nil || !w.registry.Has(s.Name) {
				return cfg, usage(fmt.Errorf("%s: there is no tool %s here: --tools names a file that has it, or --exec a program that does its jobs", name, s.Name))
			}
			cfg.Serve[name] = worker.Tool(w.registry, s.Name)
			continue
		}
		m, err := brains.Lookup(s.Name)
		if err != nil {
			return cfg, usage(fmt.Errorf("%s: %w", name, err))
		}
		cfg.Serve[name] = worker.Model(m, s.Name)
	}
	return cfg, nil
}

// environment gives the variables of a program: those that are given, and those that are named, as they are here.
func environment(given []string) ([]string, error) {
	env := []string{}
	for _, one := range given {
		name, _, ok := strings.Cut(one, "=")
		if name == "" {
			return nil, fmt.Errorf("--env %s: want NAME=VALUE or NAME", one)
		}
		if !ok {
			value, set := os.LookupEnv(name)
			if !set {
				return nil, fmt.Errorf("--env %s: the variable is not set here", name)
			}
			one = name + "=" + value
		}
		env = append(env, one)
	}
	return env, nil
}
