// Package blob has what the stores of artifact content have in common: how they share a bucket or a
// folder with other installations.
package blob

import (
	"strings"
	"time"
)

// Area is the part of a bucket or a folder that belongs to one installation, as a prefix of its
// keys. Within it, content is stored by the day (UTC) of its upload, so that the sweep for unused
// content can read one day at a time.
type Area string

// dayFormat is the format of days.
const dayFormat = "20060102"

// InstallationArea returns the area of an installation.
func InstallationArea(id string) Area { return Area("installations/" + id + "/") }

// Day returns the day of a time.
func Day(t time.Time) string { return t.UTC().Format(dayFormat) }

// Place returns where content with the key is stored that is uploaded now.
func (a Area) Place(key string) string { return a.Prefix(Day(time.Now())) + key }

// Prefix returns where the uploads of a day are stored, or with "" all content of the area.
func (a Area) Prefix(day string) string {
	if day == "" {
		return string(a)
	}
	return string(a) + day + "/"
}

// Key returns the key of content by its place. Content from before there were areas is stored at its
// key, and the place of another installation's content is no key of this one's.
func (a Area) Key(place string) string {
	rest, ours := strings.CutPrefix(place, string(a))
	day, key, found := strings.Cut(rest, "/")
	if _, err := time.Parse(dayFormat, day); !ours || !found || err != nil {
		return place
	}
	return key
}
