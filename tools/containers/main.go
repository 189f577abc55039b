// Containers checks the files for containers as far as that goes without building
// images: a Dockerfile with BuildKit's parser and linter, a compose file against the
// Compose specification, and that every file which both name is in the repository.
//
//	go run . ../../deploy/Dockerfile ../../deploy/compose/compose.yaml
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: containers DOCKERFILE COMPOSE")
		os.Exit(2)
	}
	if err := errors.Join(dockerfile(os.Args[1]), compose(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func dockerfile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var found []error
	for _, w := range parsed.Warnings {
		found = append(found, fmt.Errorf("%s: %s", path, w.Short))
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, at []parser.Range) {
		line := 0
		if len(at) > 0 {
			line = at[0].Start.Line
		}
		found = append(found, fmt.Errorf("%s:%d: %s: %s", path, line, rule, message))
	}})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, want := range []string{"server", "worker"} {
		if _, there := instructions.HasStage(stages, want); !there {
			found = append(found, fmt.Errorf("%s: there is no image %q", path, want))
		}
	}
	return errors.Join(found...)
}

// compose loads the file as docker compose does. The files that hold secrets are made
// by whoever installs it, so empty ones stand for them.
func compose(path string) error {
	whole, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "bloom-compose-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	text, err := os.ReadFile(whole)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(work, "secrets"), 0o700); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"compose.yaml": text, "secrets/server.env": nil, "secrets/worker.env": nil} {
		if err := os.WriteFile(filepath.Join(work, name), content, 0o600); err != nil {
			return err
		}
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(work, "compose.yaml")}, cli.WithResolvedPaths(true))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var found []error
	for _, s := range project.Services {
		if s.Build == nil {
			continue
		}
		file := filepath.Join(filepath.Dir(whole), "../..", s.Build.Dockerfile)
		if _, err := os.Stat(file); err != nil {
			found = append(found, fmt.Errorf("%s: service %s: %w", path, s.Name, err))
		}
	}
	return errors.Join(found...)
}
