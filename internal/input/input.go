// Package input normalizes and validates requests by the tags of their types: the same tags that
// generate the API's description, so that each limit is defined once.
//
// Of huma's tags it supports json and query, default, minLength, maxLength, minimum, maximum,
// minItems, maxItems, maxProperties, enum and required, and adds two for the entries of a list of strings:
// itemMinLength and itemMaxLength.
package input

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom/internal/storable"
)

// field describes a struct's field.
type field struct {
	index    int
	name     string // in JSON; "" for an embedded struct
	under    string // what comes before the names of a struct's fields: its name and a dot, or nothing
	optional bool   // may be absent
	omitted  bool   // is left out of JSON while empty
	def      string
	limits
}

type limits struct {
	text, items, item span
	number            span
	enum              []string
}

// span is a minimum and a maximum, as written in the tag; "" means none.
type span struct {
	least, most string
	low, high   float64 // their values
}

var types sync.Map // reflect.Type → []field

func fieldsOf(t reflect.Type) []field {
	if known, ok := types.Load(t); ok {
		return known.([]field)
	}
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(cmp.Or(f.Tag.Get("json"), f.Tag.Get("query")), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		var enum []string
		if e := f.Tag.Get("enum"); e != "" {
			enum = strings.Split(e, ",")
		}
		items := spanOf(f.Tag, "minItems", "maxItems")
		if f.Type.Kind() == reflect.Map {
			items = spanOf(f.Tag, "minProperties", "maxProperties")
		}
		under := ""
		if name != "" {
			under = name + "."
		}
		fields = append(fields, field{
			index: i, name: name, under: under, omitted: options == "omitempty", optional: options == "omitempty" || f.Tag.Get("required") == "false", def: f.Tag.Get("default"),
			limits: limits{
				text: spanOf(f.Tag, "minLength", "maxLength"), items: items,
				item: spanOf(f.Tag, "itemMinLength", "itemMaxLength"), number: spanOf(f.Tag, "minimum", "maximum"), enum: enum,
			},
		})
	}
	types.Store(t, fields)
	return fields
}

func spanOf(tag reflect.StructTag, least, most string) span {
	s := span{least: tag.Get(least), most: tag.Get(most)}
	s.low, s.high = number(s.least), number(s.most)
	return s
}

// number returns a tag's value, 0 for "".
func number(tag string) float64 {
	if tag == "" {
		return 0
	}
	n, err := strconv.ParseFloat(tag, 64)
	if err != nil {
		panic(err) // an invalid tag
	}
	return n
}

// each calls fn with every field of the struct v and of nested structs, and what comes before its
// name in its path, for example policy. of policy.timeout_sec.
func each(v reflect.Value, path string, fn func(path string, f *field, v reflect.Value)) {
	fields := fieldsOf(v.Type())
	for i := range fields {
		f, is := &fields[i], v.Field(fields[i].index)
		if is.Kind() == reflect.Struct {
			each(is, path+f.under, fn)
			continue
		}
		fn(path, f, is)
	}
}

// Defaults sets the defaults in the struct that to points to. Call it before decoding, so that
// fields that the body omits keep their defaults.
func Defaults(to any) {
	each(reflect.ValueOf(to).Elem(), "", func(_ string, f *field, v reflect.Value) {
		if f.def != "" && v.Kind() == reflect.Bool {
			v.SetBool(f.def == "true")
		}
		fill(f, v)
	})
}

// fill sets the default of a zero string or number.
func fill(f *field, v reflect.Value) {
	if f.def == "" || !v.IsZero() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.def)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(f.def, 10, 64)
		if err != nil {
			panic(err) // an invalid tag
		}
		v.SetInt(n)
	}
}

// Normalize cleans every string in the struct that to points to (see storable.Text), replaces nil
// lists by empty ones unless JSON omits them, and sets the defaults of zero strings and numbers. It
// copies lists instead of changing them in place.
func Normalize(to any) {
	each(reflect.ValueOf(to).Elem(), "", func(_ string, f *field, v reflect.Value) {
		if !f.omitted || !v.IsZero() {
			clean(v)
		}
		fill(f, v)
	})
}

func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); s != "" {
			if c := storable.Text(s); c != s {
				v.SetString(c)
			}
		}
	case reflect.Pointer:
		cleanPointer(v)
	case reflect.Slice:
		cleanList(v)
	}
}

func cleanPointer(v reflect.Value) {
	of := v.Type().Elem().Kind()
	if v.IsNil() || of != reflect.String && of != reflect.Struct {
		return
	}
	p := reflect.New(v.Type().Elem())
	p.Elem().Set(v.Elem())
	if of == reflect.Struct {
		Normalize(p.Interface())
	} else {
		clean(p.Elem())
	}
	v.Set(p)
}

func cleanList(v reflect.Value) {
	of := v.Type().Elem().Kind()
	if of != reflect.String && of != reflect.Struct {
		return
	}
	list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	reflect.Copy(list, v)
	for i := range list.Len() {
		if of == reflect.String {
			clean(list.Index(i))
		} else {
			Normalize(list.Index(i).Addr().Interface())
		}
	}
	v.Set(list)
}
