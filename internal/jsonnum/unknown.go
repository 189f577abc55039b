package jsonnum

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Unknown returns the path of the first field of a JSON body that v's type does not have, for
// example policy.timeout, and the names that it could have; or "". The body must be valid JSON.
// Types that decode themselves are not looked into. Paths that begin with one of ignored are not
// unknown.
func Unknown(body []byte, v any, ignored ...string) (path string, instead []string) {
	f := &fields{data: body, ignored: ignored}
	path = f.value(reflect.TypeOf(v), "")
	return path, slices.Sorted(maps.Keys(f.instead))
}

// fields walks over a JSON text.
type fields struct {
	data    []byte
	at      int
	ignored []string
	instead map[string]reflect.Type // the fields known where an unknown one is
}

// next returns the next byte that is neither space nor punctuation between values.
func (f *fields) next() byte {
	for f.at < len(f.data) && strings.IndexByte(" \t\r\n,:", f.data[f.at]) >= 0 {
		f.at++
	}
	if f.at >= len(f.data) {
		return 0
	}
	return f.data[f.at]
}

// value walks over one value of the type, nil for any, and returns its first unknown field.
func (f *fields) value(t reflect.Type, path string) (unknown string) {
	switch f.next() {
	case '{':
		known := namesOf(t)
		for f.at++; f.next() != '}' && f.at < len(f.data); {
			name := f.name()
			of := reflect.Type(nil)
			if known != nil {
				var there bool
				if of, there = find(known, name); !there && !f.isIgnored(path+name) {
					f.instead = known
					return path + cmp.Or(name, `""`)
				}
			}
			if unknown = f.value(of, path+name+"."); unknown != "" {
				return unknown
			}
		}
		f.at++
	case '[':
		of := element(t)
		for f.at++; f.next() != ']' && f.at < len(f.data); {
			if unknown = f.value(of, path); unknown != "" {
				return unknown
			}
		}
		f.at++
	case '"':
		f.at = stringEnd(f.data, f.at)
	default:
		end := bytes.IndexAny(f.data[f.at:], " \t\r\n,:]}")
		if end < 0 {
			end = len(f.data) - f.at
		}
		f.at += max(end, 1)
	}
	return ""
}

func (f *fields) isIgnored(path string) bool {
	return slices.ContainsFunc(f.ignored, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

func (f *fields) name() (name string) {
	from := f.at
	f.at = stringEnd(f.data, from)
	_ = json.Unmarshal(f.data[from:f.at], &name) // it is valid
	return name
}

var known sync.Map // reflect.Type → map[string]reflect.Type

// namesOf returns the fields of a struct type by their names in JSON, nil for other types.
func namesOf(t reflect.Type) map[string]reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	if names, ok := known.Load(t); ok {
		return names.(map[string]reflect.Type)
	}
	names := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" && field.IsExported() {
			names[name] = field.Type
		}
	}
	known.Store(t, names)
	return names
}

// find is how encoding/json finds a field.
func find(names map[string]reflect.Type, name string) (t reflect.Type, ok bool) {
	if t, ok = names[name]; ok {
		return t, true
	}
	for known, t := range names {
		if strings.EqualFold(known, name) {
			return t, true
		}
	}
	return nil, false
}

// element returns the type of a list's entries, nil for other types.
func element(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Slice {
		return nil
	}
	return t.Elem()
}
