package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// Setting is one resolved setting.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
	// From names the flag, variable or file; empty for a default.
	From string `json:"from,omitempty"`
	Flag string `json:"flag"`
	Env  string `json:"env"`
}

// Sources reports where the settings of one parsed command line came from.
type Sources struct {
	resolver Resolver
	flags    []*kong.Flag
	given    map[string]bool // keys whose flag was on the command line
}

// NewSources records which flags were given.
func NewSources(ctx *kong.Context, r Resolver) Sources {
	s := Sources{resolver: r, flags: ctx.Flags(), given: map[string]bool{}}
	for _, p := range ctx.Path {
		if p.Flag != nil && !p.Resolved && isSetting(p.Flag) {
			s.given[p.Flag.Tag.Get("key")] = true
		}
	}
	return s
}

// Of returns the source of a setting by its key in the file.
func (s Sources) Of(key, envVar string) Source {
	if s.given[key] {
		return FromFlag
	}
	if _, ok := s.resolver.Env(envVar); ok {
		return FromEnv
	}
	if _, ok := s.resolver.File.values[key]; ok {
		return FromFile
	}
	return FromDefault
}

// Given returns the flags of these settings that were on the command line, with their values.
func (s Sources) Given(keys ...string) (args []string) {
	for _, f := range s.flags {
		if isSetting(f) && s.given[f.Tag.Get("key")] && slices.Contains(keys, f.Tag.Get("key")) {
			args = append(args, "--"+f.Name, show(f.Target.Interface()))
		}
	}
	return args
}

// FileValue reads one line of the config file again; empty when the line or the file does not
// exist.
func (s Sources) FileValue(key string) (string, error) {
	if s.resolver.File.Path == "" {
		return "", nil
	}
	now, err := ReadFile(s.resolver.File.Path, true)
	if err != nil || len(now.values[key]) != 1 {
		return "", err
	}
	return now.values[key][0], nil
}

// Locate names the settings in an error by where their values come from: the variable, or the line
// of the config file, instead of the flag that the error names.
func (s Sources) Locate(err error) error {
	if err == nil {
		return nil
	}
	known := map[string]*kong.Flag{}
	for _, f := range s.flags {
		if isSetting(f) {
			known["--"+f.Name], known[f.Tag.Get("var")] = f, f
		}
	}
	text := settingName.ReplaceAllStringFunc(err.Error(), func(name string) string {
		flag, _, _ := strings.Cut(name, " (or ")
		f := known[flag]
		if f == nil {
			return name
		}
		switch key, variable := f.Tag.Get("key"), f.Tag.Get("var"); s.Of(key, variable) {
		case FromEnv:
			return variable
		case FromFile:
			return s.resolver.File.named(key)
		case FromFlag, FromDefault:
		}
		return name
	})
	return locatedError{err, text}
}

// settingName finds flags, with their variable in brackets if it is there, and variables.
var settingName = regexp.MustCompile(`--[a-z][a-z0-9-]*[a-z0-9](?: \(or [A-Z0-9_]+\))?|\b[A-Z][A-Z0-9_]+\b`)

type locatedError struct {
	error

	text string
}

func (e locatedError) Error() string { return e.text }
func (e locatedError) Unwrap() error { return e.error }

// List returns every setting of the selected command in the order of their keys, with secrets
// masked.
func (s Sources) List() []Setting {
	byKey := map[string]Setting{}
	for _, f := range s.flags {
		if !isSetting(f) {
			continue
		}
		one := s.setting(f)
		byKey[one.Key] = one
	}
	s.explainParts(byKey)
	out := make([]Setting, 0, len(byKey))
	for _, key := range sortedKeys(byKey) {
		out = append(out, byKey[key])
	}
	return out
}

// addressParts are the settings that are one part of an address, with the address.
var addressParts = []struct{ part, address string }{
	{"port", "listen"}, {"membridge_host", "membridge_listen"}, {"membridge_port", "membridge_listen"},
}

// explainParts says which of two settings decides, where one is a part of the other.
func (s Sources) explainParts(byKey map[string]Setting) {
	for _, pair := range addressParts {
		part, address := byKey[pair.part], byKey[pair.address]
		from := s.Of(part.Key, part.Env)
		switch {
		case part.Key == "" || address.Key == "" || from == FromDefault:
			continue
		case from > s.Of(address.Key, address.Env):
			address.From = strings.TrimSpace(address.From + " with " + part.From)
			byKey[pair.address] = address
		default:
			part.From += fmt.Sprintf(" (not used: %s is set)", address.From)
			byKey[pair.part] = part
		}
	}
}

func (s Sources) setting(f *kong.Flag) Setting {
	one := Setting{Key: f.Tag.Get("key"), Env: f.Tag.Get("var"), Flag: "--" + f.Name}
	source := s.Of(one.Key, one.Env)
	one.Source = source.String()
	switch source {
	case FromFlag:
		one.From = one.Flag
	case FromEnv:
		one.From = one.Env
	case FromFile:
		one.From = s.resolver.File.Path
	case FromDefault:
	}
	one.Value = show(f.Target.Interface())
	return one
}

func show(v any) string {
	switch v := v.(type) {
	case Secret:
		return v.Mask()
	case []string:
		return strings.Join(v, ",")
	case *bool:
		if v == nil {
			return ""
		}
		return strconv.FormatBool(*v)
	}
	return fmt.Sprint(v)
}
