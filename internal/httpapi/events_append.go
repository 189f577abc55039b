package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/jsonnum"
)

// eventBatch is how many events of a worker are stored in one transaction.
const eventBatch = 256

type appendInput struct {
	ID      string `path:"id"`
	LeaseID string `query:"lease_id" doc:"The lease under which the task runs"`
}

// appended is the response to appended events.
type appended struct {
	LastSeq  int64 `json:"last_seq" doc:"Number of the task's last event"`
	Accepted int   `json:"accepted" doc:"Events read from the request"`
}

// appendEvents stores a worker's lines in batches.
func (s *Server) appendEvents(ctx context.Context, c *call, in *appendInput) (*reply[appended], error) {
	if in.LeaseID == "" {
		return nil, bloom.Invalid("Events must name their lease", bloom.FieldError{Field: "lease_id", Message: "must not be empty"})
	}
	if err := s.mayUse(ctx, c, in.ID, in.LeaseID); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := s.readBody(c, &body, limitEvents, func([]byte) error { return s.svc.CheckActive(ctx, in.ID, in.LeaseID) }); err != nil {
		return nil, err
	}
	var res appended
	var batch []bloom.WorkerEvent
	size, rest := 0, body.Bytes()
	for number := int64(1); ; number++ {
		line, after, more := bytes.Cut(rest, []byte("\n"))
		rest = after
		if line = bytes.TrimSpace(line); len(line) > 0 {
			e, err := parseEvent(line, number)
			if err != nil {
				return nil, err
			}
			batch, size = append(batch, e), size+len(line)
		}
		if len(batch) >= eventBatch || size >= limitBody || !more {
			last, err := s.svc.AppendEvents(ctx, in.ID, in.LeaseID, batch)
			if err != nil {
				return nil, err
			}
			res.LastSeq, res.Accepted = last, res.Accepted+len(batch)
			if !more {
				return &reply[appended]{http.StatusOK, res}, nil
			}
			batch, size = nil, 0
		}
	}
}

func parseEvent(line []byte, number int64) (bloom.WorkerEvent, error) {
	var e bloom.WorkerEvent
	where := "line " + itoa(number)
	if jsonnum.Exceeds(line) {
		return e, bloom.Invalid("An event nests deeper than 64 levels or has more than 20000 values", bloom.FieldError{Field: where, Message: "must nest at most 64 levels and have at most 20000 values"})
	}
	if err := unmarshal(line, &e); err != nil {
		return e, bloom.Invalid("An event is not a valid JSON object", bloom.FieldError{Field: where, Message: `must be {"seq","type","at","data"}`})
	}
	if name, _ := jsonnum.Unknown(line, e); name != "" {
		return e, bloom.Invalid("An event has an unknown field", bloom.FieldError{Field: where, Message: `must be {"seq","type","at","data"}`})
	}
	if invalid := (*bloom.Error)(nil); errors.As(input.Check(e), &invalid) {
		for i := range invalid.Details {
			invalid.Details[i].Field = where + ": " + invalid.Details[i].Field
		}
		return e, input.Wrong(invalid.Details...)
	}
	return e, nil
}
