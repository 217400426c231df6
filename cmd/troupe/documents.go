package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// A document is a file that a subagent is to work on.
type document struct {
	path, text string
}

// documentsOf reads the files that the patterns match: in the order of the patterns, those of one
// pattern sorted, each once. A pattern that names an existing file means that file, whatever is in
// its name.
func documentsOf(patterns []string) ([]document, error) {
	var all []document
	seen := map[string]bool{}
	for _, pattern := range patterns {
		paths, err := matching(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if seen[path] {
				continue
			}
			seen[path] = true
			d, err := readDocument(path)
			if err != nil {
				return nil, err
			}
			all = append(all, d)
		}
	}
	return all, nil
}

// matching lists the files that a pattern matches, without the directories.
func matching(pattern string) ([]string, error) {
	if _, err := os.Stat(pattern); err == nil {
		return []string{filepath.Clean(pattern)}, nil
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil, usage(fmt.Errorf("--each %s: %w", pattern, err))
	}
	var paths []string
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			continue
		}
		paths = append(paths, filepath.Clean(path))
	}
	if len(paths) == 0 {
		return nil, failed("--each %s: no file matches", pattern)
	}
	slices.Sort(paths)
	return paths, nil
}

func readDocument(path string) (document, error) {
	data, err := os.ReadFile(path)
	var at *fs.PathError
	switch {
	case errors.As(err, &at):
		return document{}, failed("%s: %v", path, at.Err)
	case err != nil:
		return document{}, failed("%s: %v", path, err)
	case !utf8.Valid(data):
		return document{}, failed("%s: not UTF-8 text", path)
	}
	return document{path, string(data)}, nil
}

// instruction is what the subagent for a document is told.
func (d document) instruction(prompt string) string {
	return prompt + "\n\n<document name=\"" + d.path + "\">\n" + d.text + "\n</document>"
}
