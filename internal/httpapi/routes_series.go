package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

type seriesFilter struct {
	From number `query:"from" doc:"Unix milliseconds; absent: a day before to"`
	To   number `query:"to" doc:"Unix milliseconds; absent: now"`
	Step number `query:"step" doc:"Seconds per point, a multiple of 60. Raised to 3600 where only hours are kept. Absent: a minute for up to a day, else an hour"`
}

func (s *Server) seriesRoutes() {
	handle(s, route{method: http.MethodGet, path: runtimePath + "/stats/series", id: "stats-series", summary: "Time series of tasks", tag: "system"},
		func(ctx context.Context, _ *call, in *seriesFilter) (*reply[bloom.Series], error) {
			q := numbers{}
			from, to := q.read("from", in.From, 0, maxMillis), q.read("to", in.To, 0, maxMillis)
			step := q.read("step", in.Step, 60, int64(contract.SeriesHours/time.Second))
			if step%60 != 0 {
				q.wrong = append(q.wrong, bloom.FieldError{Field: "step", Message: "must be a multiple of 60"})
			}
			if err := q.err(); err != nil {
				return nil, err
			}
			series, err := s.svc.Series(ctx, from, to, step)
			return &reply[bloom.Series]{http.StatusOK, series}, err
		})
}

func (s *Server) problemRoutes() {
	handle(s, route{method: http.MethodGet, path: runtimePath + "/problems", id: "list-problems", summary: "Problems of the installation, and what to do about them", tag: "system"},
		func(ctx context.Context, c *call, _ *none) (*reply[bloom.Problems], error) {
			return &reply[bloom.Problems]{http.StatusOK, s.problems.Find(ctx, c.caller.Role == auth.RoleAdmin)}, nil
		})
}

// maxMillis is the end of the year 9999.
const maxMillis = 253402300799999

// numbers parses integers of a query and collects the errors.
type numbers struct{ wrong []bloom.FieldError }

// err returns nil if no number is wrong.
func (q *numbers) err() error {
	if len(q.wrong) == 0 {
		return nil
	}
	return bloom.Invalid("The request is invalid: "+q.wrong[0].Field+" "+q.wrong[0].Message, q.wrong...)
}

// read returns 0 for an absent number.
func (q *numbers) read(field string, n number, least, most int64) int64 {
	if n == "" {
		return 0
	}
	v, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil || v < least || v > most {
		q.wrong = append(q.wrong, bloom.FieldError{Field: field, Message: fmt.Sprintf("must be a whole number between %d and %d", least, most)})
	}
	return v
}
