package mbclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The form of membridge's responses. Any server may answer 200, and valid JSON need not be the
// response to the request. Additional fields are allowed.

// shapeOf returns the check for the response to a proxied request.
func shapeOf(method, path string) func(answer []byte) error {
	switch {
	case method == http.MethodGet && path == "/health":
		return healthy
	case method == http.MethodGet && (path == "/projects" || strings.HasSuffix(path, "/nodes") || strings.HasPrefix(path, "/jobs?")):
		return objects
	case method == http.MethodGet && strings.HasSuffix(path, "/leadership"):
		return object("canonical_id", "preferred_primary")
	case method == http.MethodGet && strings.HasPrefix(path, "/jobs/"):
		return object("id", "status")
	case method == http.MethodPost && strings.HasSuffix(path, "/leadership/select"):
		return object("ok", "canonical_id", "primary_node_id")
	case method == http.MethodPost && strings.HasPrefix(path, "/sync/"):
		return object("ok", "job_id")
	}
	return valid
}

func valid(answer []byte) error {
	if len(answer) > 0 && !json.Valid(answer) {
		return errors.New("the response is not JSON")
	}
	return nil
}

// healthy checks for a membridge that reports itself healthy.
func healthy(answer []byte) error {
	var h struct {
		Status  string `json:"status"`
		Service string `json:"service"`
	}
	if err := json.Unmarshal(answer, &h); err != nil {
		return err
	}
	if h.Status != "ok" {
		return errors.New("its status is not ok")
	}
	if h.Service != "" && !strings.Contains(h.Service, "membridge") {
		return errors.New("it is another service")
	}
	return nil
}

// objects checks for an array of objects.
func objects(answer []byte) error {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(answer, &list); err != nil {
		return err
	}
	if list == nil {
		return errors.New("null is not a list")
	}
	return nil
}

// object checks for an object with these fields, whatever their values.
func object(fields ...string) func(answer []byte) error {
	return func(answer []byte) error {
		var o map[string]json.RawMessage
		if err := json.Unmarshal(answer, &o); err != nil {
			return err
		}
		for _, f := range fields {
			if _, ok := o[f]; !ok {
				return fmt.Errorf("%s is missing", f)
			}
		}
		return nil
	}
}

// jobFailed reports whether a 502 names the job that an agent failed to carry out: it is about the
// agent, not about membridge.
func jobFailed(status int, answer []byte) bool {
	return status == http.StatusBadGateway && object("job_id", "detail")(answer) == nil && refusal(answer) == nil
}

// refusal checks that a 4xx has a detail, as all of membridge's have.
func refusal(answer []byte) error {
	var o struct {
		Detail json.RawMessage `json:"detail"`
	}
	if err := json.Unmarshal(answer, &o); err != nil {
		return err
	}
	if len(o.Detail) == 0 || string(o.Detail) == "null" {
		return errors.New("detail is missing")
	}
	return nil
}
