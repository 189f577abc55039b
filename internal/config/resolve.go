package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Source is where a setting's value comes from. A greater source takes precedence.
type Source int

// The sources.
const (
	FromDefault Source = iota
	FromFile
	FromEnv
	FromFlag
)

func (s Source) String() string {
	return [...]string{"default", "file", "environment", "flag"}[s]
}

// Resolver supplies the command-line parser with settings that have no flag: from the environment
// first, then from the file. The parser's own JSON resolver has the opposite order and ignores
// unknown keys.
type Resolver struct {
	File File
	// Env looks a variable up; os.LookupEnv.
	Env func(string) (string, bool)
	// Mistakes, when not nil, collects the errors in the file and the environment, and parsing
	// continues; otherwise the first error ends it.
	Mistakes *Mistakes
}

// Mistakes collects errors in the config file and the environment.
type Mistakes struct{ errs []error }

// Err returns all errors joined, nil when there are none.
func (m *Mistakes) Err() error { return errors.Join(m.errs...) }

// report returns err, unless errors are collected.
func (r Resolver) report(err error) error {
	if r.Mistakes == nil || err == nil {
		return err
	}
	if !slices.ContainsFunc(r.Mistakes.errs, func(known error) bool { return known.Error() == err.Error() }) {
		r.Mistakes.errs = append(r.Mistakes.errs, err)
	}
	return nil
}

var _ kong.Resolver = Resolver{}

// Validate refuses unknown keys in the file, and values that their setting does not accept,
// whichever command runs: errors are found at the first start, not when another role starts.
func (r Resolver) Validate(app *kong.Application) error {
	known := map[string]*kong.Flag{}
	walk(app.Node, func(f *kong.Flag) { known[f.Tag.Get("key")] = f })
	for _, key := range sortedKeys(r.File.values) {
		flag, ok := known[key]
		if !ok {
			if err := r.report(fmt.Errorf("%s: unknown key %q%s", r.File.at(key), key, suggest(key, known))); err != nil {
				return err
			}
			continue
		}
		if err := check(flag, r.File.values[key]); err != nil {
			if err := r.report(fmt.Errorf("%s: %s: %w", r.File.at(key), key, err)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Resolve returns the value of a setting, nil to leave its default.
func (r Resolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	values, from, name := r.look(flag)
	if from == FromDefault {
		return nil, nil
	}
	if err := check(flag, values); err != nil {
		if from == FromFile && r.Mistakes != nil {
			return nil, nil // Validate has reported it
		}
		if r.Mistakes != nil {
			err = fmt.Errorf("%s: %w", name, err)
		} else {
			err = fmt.Errorf("from %s: %w", name, err)
		}
		return nil, r.report(err)
	}
	return token(flag, values), nil
}

func (r Resolver) look(flag *kong.Flag) (values []string, from Source, name string) {
	if !isSetting(flag) {
		return nil, FromDefault, ""
	}
	name = flag.Tag.Get("var")
	if v, ok := r.Env(name); ok {
		values = []string{v}
		if flag.IsSlice() && flag.Tag.Sep >= 0 {
			values = strings.Split(v, string(flag.Tag.Sep))
		}
		return values, FromEnv, name
	}
	key := flag.Tag.Get("key")
	if values, ok := r.File.values[key]; ok {
		return values, FromFile, r.File.named(key)
	}
	return nil, FromDefault, ""
}

func isSetting(flag *kong.Flag) bool { return flag.Tag.Has("var") }

// check parses the values with the setting's own decoder into a throwaway target, so that the
// parser's state is unchanged.
func check(flag *kong.Flag, values []string) error {
	if slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
		return errors.New("is set but empty; give it a value or remove it")
	}
	if len(values) != 1 && !flag.IsSlice() {
		return errors.New("takes one value, not a list")
	}
	scan := kong.Scan().PushTyped(token(flag, values), kong.FlagValueToken)
	target := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan}, target); err != nil {
		return err
	}
	if flag.Enum != "" && !flag.EnumMap()[values[0]] {
		return fmt.Errorf("must be one of %s, not %q", strings.Join(enumWords(flag), ", "), values[0])
	}
	return nil
}

func enumWords(flag *kong.Flag) []string {
	return slices.DeleteFunc(strings.Split(flag.Enum, ","), func(word string) bool { return word == "" })
}

func token(flag *kong.Flag, values []string) any {
	switch {
	case flag.IsSlice():
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		return list
	case flag.IsBool():
		// The parser itself interprets words such as "yes", "1" and "off".
		return values[0]
	}
	return values[0]
}

func walk(node *kong.Node, visit func(*kong.Flag)) {
	for _, f := range node.Flags {
		if isSetting(f) {
			visit(f)
		}
	}
	for _, child := range node.Children {
		walk(child, visit)
	}
}

// CheckVariable refuses a name that looks like a setting's variable but is not one. Variables of
// other programs, such as ANTHROPIC_API_KEY, pass.
func CheckVariable(app *kong.Application, name string) error {
	known := map[string]*kong.Flag{}
	walk(app.Node, func(f *kong.Flag) { known[f.Tag.Get("var")] = f })
	if known[name] != nil {
		return nil
	}
	hint := suggest(name, known)
	if hint == noSuggestion && !strings.HasPrefix(name, "BLOOM_") {
		return nil
	}
	return fmt.Errorf("no setting has the variable %q%s", name, hint)
}

const noSuggestion = "; `bloom config show` lists them"

func suggest(key string, known map[string]*kong.Flag) string {
	plain := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) }
	for _, k := range sortedKeys(known) {
		if plain(k) == plain(key) || plain(known[k].Name) == plain(key) || strings.EqualFold(known[k].Tag.Get("var"), key) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	for _, k := range sortedKeys(known) {
		if oneEditApart(k, key) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	return noSuggestion
}

// oneEditApart reports whether a and b differ by one letter that is added, removed or replaced, or
// by two that are swapped.
func oneEditApart(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch rest := len(a) - i; {
	case len(a) < len(b):
		return a[i:] == b[i+1:]
	case rest == 0 || a[i+1:] == b[i+1:]:
		return true
	default:
		return rest > 1 && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
