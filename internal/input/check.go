package input

import (
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// Checker is a type with rules that tags cannot express.
type Checker interface{ Check() []bloom.FieldError }

// Check validates the struct v. Its error, of kind bloom.KindInvalid, names each invalid field and
// its limit, never its value.
func Check(v any) error {
	var wrong []bloom.FieldError
	check(&wrong, "", reflect.Indirect(reflect.ValueOf(v)))
	if c, ok := v.(Checker); ok {
		wrong = append(wrong, c.Check()...)
	}
	return Wrong(wrong...)
}

// Wrong returns an error for the details, nil without any.
func Wrong(details ...bloom.FieldError) error {
	if len(details) == 0 {
		return nil
	}
	return bloom.Invalid("Invalid request: "+details[0].Field+" "+details[0].Message, details...)
}

func check(wrong *[]bloom.FieldError, path string, v reflect.Value) {
	each(v, path, func(path string, f *field, v reflect.Value) {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return
			}
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct { // each visits structs that are not pointers
			check(wrong, path+f.under, v)
			return
		}
		if message := f.check(v); message != "" {
			*wrong = append(*wrong, bloom.FieldError{Field: path + f.name, Message: message})
			return
		}
		switch {
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
			for i := range v.Len() {
				check(wrong, path+f.under, v.Index(i))
			}
		case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Struct:
			for entry := v.MapRange(); entry.Next(); {
				check(wrong, path+f.under+"*.", entry.Value()) // the key is the caller's
			}
		}
	})
}

// check returns what is wrong with a value, or "".
func (f *field) check(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		if len(f.enum) > 0 && !(f.optional && v.Len() == 0) {
			return OneOf(v.String(), f.enum...)
		}
		return f.text.length(v.String())
	case reflect.Slice:
		if message := f.items.count(v.Len(), "entries"); message != "" || f.item == (span{}) {
			return message
		}
		for i := range v.Len() {
			if message := f.item.length(v.Index(i).String()); message != "" {
				return message
			}
		}
	case reflect.Map:
		return f.items.count(v.Len(), "entries")
	case reflect.Int, reflect.Int64:
		return f.number.between(float64(v.Int()))
	case reflect.Float64:
		return f.number.between(v.Float())
	}
	return ""
}

// OneOf returns a message unless v is one of the words.
func OneOf[T ~string](v T, words ...T) string {
	if slices.Contains(words, v) {
		return ""
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + string(w) + "'"
	}
	return "must be " + strings.Join(quoted, " or ")
}

func (s span) length(text string) string {
	if text == "" || s.most == "" { // counting the characters of a long text is slow
		return s.count(len(text), "characters")
	}
	return s.count(utf8.RuneCountInString(text), "characters")
}

func (s span) count(n int, what string) string {
	switch {
	case s.least != "" && n == 0:
		return "must not be empty"
	case s.most != "" && n > int(s.high):
		return "must have at most " + s.most + " " + what
	}
	return ""
}

func (s span) between(n float64) string {
	low, high := s.least != "" && n < s.low, s.most != "" && n > s.high
	switch {
	case !low && !high:
		return ""
	case s.most != "":
		return "must be between " + s.least + " and " + s.most
	case s.least == "0":
		return "must not be negative"
	}
	return "must be at least " + s.least
}
