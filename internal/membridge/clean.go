package membridge

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

// clean replaces what a database may refuse, NUL and invalid UTF-8, so that both stores keep the
// same text.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func cleaned(s *string) *string {
	if s == nil {
		return nil
	}
	c := clean(*s)
	return &c
}

func cleanedList(list *[]string) *[]string {
	if list == nil {
		return nil
	}
	out := make([]string, len(*list))
	for i, s := range *list {
		out[i] = clean(s)
	}
	return &out
}

func cleanReports(reports []registry.JobReport) []registry.JobReport {
	for i := range reports {
		reports[i].JobID, reports[i].Detail = clean(reports[i].JobID), clean(reports[i].Detail)
		reports[i].Stdout, reports[i].Stderr = clean(reports[i].Stdout), clean(reports[i].Stderr)
	}
	return reports
}

// checkLists refuses lists that are too long together: every list of agents has them.
func checkLists(lists ...*[]string) error {
	n := 0
	for _, list := range lists {
		if list != nil {
			n += bloom.ListBytes(*list)
		}
	}
	if n > bloom.MaxWorkerLists {
		return problem(http.StatusBadRequest, fmt.Sprintf("ip_addrs: must have, with labels, at most %d bytes", bloom.MaxWorkerLists))
	}
	return nil
}

// cleanName returns the name under which something is registered.
func cleanName(name string) (string, error) {
	if strings.ContainsFunc(name, unicode.IsControl) {
		return "", problem(http.StatusBadRequest, "name: must not contain control characters")
	}
	name = strings.TrimSpace(clean(name))
	switch name {
	case "":
		return "", problem(http.StatusBadRequest, "name: must not be empty")
	case ".", "..":
		return "", problem(http.StatusBadRequest, "name: must not be . or .., which no URL path can end in")
	}
	return name, nil
}

// checkSegment refuses an agent's name that is not one segment of a URL path, here or as a worker
// of the runtime.
func checkSegment(name string) error {
	if strings.Contains(name, "/") {
		return problem(http.StatusBadRequest, "name: must not contain a slash")
	}
	return nil
}

// checkURL accepts an empty or absolute http(s) URL without a password.
func checkURL(raw *string) error {
	if raw == nil || *raw == "" {
		return nil
	}
	u, err := url.Parse(*raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return problem(http.StatusBadRequest, "url: must be an http or https URL without a password")
	}
	return nil
}
