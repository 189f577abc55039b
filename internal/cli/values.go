package cli

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// values parse flags and arguments, with error messages for users: those of the parser mention its
// internal types and tokens.
var values = []kong.Option{
	kong.KindMapper(reflect.String, value(func(text string, to reflect.Value) error {
		to.SetString(text)
		return nil
	})),
	kong.KindMapper(reflect.Int, value(readInt)),
	kong.KindMapper(reflect.Int64, value(readInt)),
	kong.KindMapper(reflect.Float64, value(func(text string, to reflect.Value) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		to.SetFloat(n)
		return nil
	})),
	kong.TypeMapper(reflect.TypeFor[time.Duration](), value(func(text string, to reflect.Value) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a time like 30s or 5m", text)
		}
		to.SetInt(int64(d))
		return nil
	})),
}

func readInt(text string, to reflect.Value) error {
	n, err := strconv.ParseInt(text, 0, to.Type().Bits())
	if err != nil {
		return fmt.Errorf("%q is not a whole number, or too large a one", text)
	}
	to.SetInt(n)
	return nil
}

// value adapts a parser of one value.
func value(read func(text string, to reflect.Value) error) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, to reflect.Value) error {
		switch next := ctx.Scan.Peek(); {
		case next.IsEOL():
			return errors.New("a value is missing")
		case !next.IsValue():
			return fmt.Errorf("a value is missing; write one that begins with a dash as --%s=%s", ctx.Value.Name, next)
		default:
			text := fmt.Sprint(ctx.Scan.Pop().Value)
			if allowed := choices(ctx.Value); len(allowed) > 0 && text != "" && !slices.Contains(allowed, text) {
				return fmt.Errorf("%q is not one of %s", text, strings.Join(allowed, ", "))
			}
			return read(text, to)
		}
	}
}

// choices returns the allowed values; none when any value is allowed.
func choices(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return slices.DeleteFunc(v.EnumSlice(), func(one string) bool { return one == "" })
}
