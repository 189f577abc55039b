package cli

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/bloom-runtime/bloom/internal/config"
)

func newParser(root *commands, args []string, sys System) (*kong.Kong, config.Resolver, error) {
	resolver := config.Resolver{Env: sys.Env, Mistakes: &config.Mistakes{}}
	path, named := configPath(args, sys)
	if named && strings.TrimSpace(path) == "" {
		return nil, resolver, errors.New("--config (or BLOOM_CONFIG) is set but empty; give it a value or remove it")
	}
	file, err := config.ReadFile(path, !named)
	if err != nil {
		return nil, resolver, err
	}
	resolver.File = file
	parser, err := kong.New(root, append(values,
		kong.Name("bloom"),
		kong.Description("BLOOM Runtime: a durable runtime for LLM agent tasks."),
		kong.Writers(sys.Out, sys.Err),
		kong.Exit(func(code int) { panic(exitNow(code)) }),
		kong.Resolvers(resolver),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100, FlagsLast: true, NoExpandSubcommands: true}),
		kong.Help(printHelp),
		kong.ValueFormatter(describeValue),
		kong.Vars{
			"version":  versionLine(),
			"data_dir": config.DefaultDataDir(sys.Env),
			"hostname": sys.Hostname,
		},
	)...)
	if err == nil {
		namePlaceholders(parser.Model.Node)
		addNames(parser.Model.Node)
		addPages(parser.Model.Node)
	}
	return parser, resolver, err
}

// configPath finds the name of the config file before the parser runs, because the parser's
// defaults come from the file.
func configPath(args []string, sys System) (path string, named bool) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "--config" && i+1 < len(args) {
			return args[i+1], true
		}
		if value, ok := strings.CutPrefix(arg, "--config="); ok {
			return value, true
		}
	}
	if path, ok := sys.Env("BLOOM_CONFIG"); ok {
		return path, true
	}
	return config.DefaultPath(sys.Env), false
}

// namePlaceholders keeps the parser from showing a default as the placeholder: describeValue shows
// the defaults.
func namePlaceholders(node *kong.Node) {
	for _, f := range node.Flags {
		switch {
		case f.PlaceHolder != "" || f.IsBool():
		case f.Target.Type() == reflect.TypeFor[time.Duration]():
			f.PlaceHolder = "DURATION"
		default:
			words := strings.Split(f.Name, "-")
			f.PlaceHolder = strings.ToUpper(words[len(words)-1])
		}
	}
	for _, child := range node.Children {
		namePlaceholders(child)
	}
}

// describeValue returns a flag's help: its purpose, default, variable and aliases.
func describeValue(value *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(value)
	if value.Tag == nil {
		return help
	}
	var more []string
	if value.HasDefault && value.Default != "" && !value.IsBool() {
		more = append(more, "default "+value.Default)
	}
	if value.Tag.Has("var") {
		more = append(more, "$"+value.Tag.Get("var"))
	}
	for _, alias := range value.Tag.Aliases {
		more = append(more, "also --"+alias)
	}
	if len(more) == 0 {
		return help
	}
	return help + " (" + strings.Join(more, ", ") + ")"
}

// bareCommand returns the group of commands that was given without a subcommand, nil for other
// errors.
func bareCommand(err error) *kong.Context {
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context == nil {
		return nil
	}
	node := parse.Context.Selected()
	if node == nil {
		node = parse.Context.Model.Node
	}
	if len(node.Children) == 0 || !strings.HasPrefix(parse.Error(), "expected one of ") {
		return nil
	}
	return parse.Context
}

// checkGiven refuses empty values on the command line, which are usually unset variables of a
// script.
func checkGiven(kctx *kong.Context) error {
	for _, p := range kctx.Path {
		switch {
		case p.Resolved:
		case p.Flag != nil && isEmpty(p.Flag.Target):
			return fmt.Errorf("--%s: the value is empty; give one, or leave the flag out", p.Flag.Name)
		case p.Positional != nil && !p.Positional.Passthrough && isEmpty(p.Positional.Target):
			return fmt.Errorf("<%s>: the value is empty", p.Positional.Name)
		}
	}
	return nil
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return strings.TrimSpace(v.String()) == ""
	case reflect.Slice:
		return v.Len() == 0 || slices.ContainsFunc(slices.Collect(elements(v)), isEmpty)
	}
	return false
}

func elements(list reflect.Value) func(yield func(reflect.Value) bool) {
	return func(yield func(reflect.Value) bool) {
		for i := range list.Len() {
			if !yield(list.Index(i)) {
				return
			}
		}
	}
}

// toleratesConfigErrors reports whether the command runs in spite of errors in the config file: the
// one that shows the settings helps to find them.
func toleratesConfigErrors(kctx *kong.Context) bool {
	return strings.HasPrefix(kctx.Command(), "config") || strings.HasPrefix(kctx.Command(), "help")
}

// mistake is what is wrong with the command line, in our words where the parser's name
// its own notions.
func mistake(err error) error {
	said := err.Error()
	if what, ok := strings.CutPrefix(said, "expected "); ok && !strings.HasPrefix(what, "one of ") {
		what = strings.Trim(what, `"`)
		return fmt.Errorf("%s %s missing", what, isOrAre(len(strings.Fields(strings.ReplaceAll(what, " ...", "")))))
	}
	var parse *kong.ParseError
	if argument, ok := strings.CutPrefix(said, "unexpected argument "); ok && errors.As(err, &parse) && parse.Context.Selected() != nil {
		node := parse.Context.Selected()
		switch {
		case slices.ContainsFunc(node.Positional, func(v *kong.Value) bool { return v.Name == "prompt" }):
			return fmt.Errorf("%w: put the prompt in quotes", err)
		case argument == last && slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == "task" }):
			return fmt.Errorf("%w: say --task %s", err, last)
		}
	}
	if flag, ok := strings.CutPrefix(said, "unknown flag "); ok && strings.Contains(strings.Split(flag, ",")[0], " ") {
		return fmt.Errorf("an argument that begins with a dash is taken for a flag: write -- before it")
	}
	if flags, ok := strings.CutPrefix(said, "missing flags: "); ok {
		return fmt.Errorf("%s %s missing", flags, isOrAre(1+strings.Count(flags, ", ")))
	}
	return err
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// commandOf returns the command that was called, as far as it was parsed, with a trailing space.
func commandOf(kctx *kong.Context, err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) {
		kctx = parse.Context
	}
	if kctx == nil {
		return ""
	}
	if node := kctx.Selected(); node != nil {
		return strings.TrimPrefix(node.FullPath(), "bloom ") + " "
	}
	return ""
}
