package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// report is one line from the supervisor: the first that the command started, the last how it
// ended, and answers between them.
type report struct {
	PID        int    `json:"pid,omitempty"`
	Error      string `json:"error,omitempty"`
	Errno      int    `json:"errno,omitempty"`
	Code       int    `json:"code,omitempty"`
	Signal     int    `json:"signal,omitempty"`
	LeftBehind int    `json:"left_behind,omitempty"`
	Orphans    *bool  `json:"orphans,omitempty"` // the answer to orderOrphans
}

func readReport(r *bufio.Reader) (report, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return report{}, err
	}
	var rep report
	err = json.Unmarshal(line, &rep)
	return rep, err
}

func (r report) startError(err error) error {
	if err != nil {
		return fmt.Errorf("supervisor did not start: %w", err)
	}
	if r.Errno != 0 {
		return &os.PathError{Op: "start", Path: r.Error, Err: syscall.Errno(r.Errno)}
	}
	return errors.New(r.Error)
}
