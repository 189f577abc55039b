package mbclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// What an answer must look like to be membridge's. Anything may answer 200 at an
// address, and valid JSON is not yet the answer to the question. More fields than
// these are fine.

// shapeOf is the check for the answer to a request of the proxy's.
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
		return errors.New("the answer is not JSON")
	}
	return nil
}

// healthy wants a membridge that calls itself well.
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

// objects wants an array of objects.
func objects(answer []byte) error {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(answer, &list); err != nil {
		return err
	}
	if list == nil {
		return errors.New("null is no list")
	}
	return nil
}

// object wants an object with the fields, whatever their values.
func object(fields ...string) func(answer []byte) error {
	return func(answer []byte) error {
		var o map[string]json.RawMessage
		if err := json.Unmarshal(answer, &o); err != nil {
			return err
		}
		for _, f := range fields {
			if _, there := o[f]; !there {
				return fmt.Errorf("%s is missing", f)
			}
		}
		return nil
	}
}

// undone reports that membridge says which job an agent did not carry out: its 502
// is about the agent then, not about membridge.
func undone(status int, answer []byte) bool {
	return status == http.StatusBadGateway && object("job_id", "detail")(answer) == nil && refusal(answer) == nil
}

// refusal wants a 4xx to say why, as membridge does in every one of them.
func refusal(answer []byte) error {
	var o struct {
		Detail json.RawMessage `json:"detail"`
	}
	if err := json.Unmarshal(answer, &o); err != nil {
		return err
	}
	if len(o.Detail) == 0 || string(o.Detail) == "null" {
		return errors.New("it does not say why")
	}
	return nil
}
