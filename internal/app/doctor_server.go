package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// workersWithClaude returns the names of the workers that can run tasks now.
func workersWithClaude(workers []bloom.Worker) (names []string) {
	for _, w := range workers {
		if w.Status == bloom.WorkerOnline && w.Capabilities.ClaudeCLI {
			names = append(names, w.ID)
		}
	}
	return names
}

// ofProblem converts a problem that the running server reports.
func ofProblem(p bloom.Problem) Finding {
	f := Finding{Name: "server", Status: Doubtful, Detail: p.Sentence, Fix: p.Action}
	switch p.Severity {
	case bloom.SeverityError:
		f.Status = Wrong
	case bloom.SeverityInfo:
		f.Status, f.Fix = Fine, ""
	case bloom.SeverityWarning:
	}
	for prefix, name := range map[string]string{"workers": "workers", "no_workers": "workers", "all_workers": "workers", "tasks": "tasks", "queue": "tasks", "credentials": "login",
		"membridge": "membridge", "artifact": "artifacts", "certificate": "certificate", "keys": "keys", "disk": "disk", "worker_versions": "workers"} {
		if strings.HasPrefix(p.Code, prefix) {
			f.Name = name
		}
	}
	return f
}

// examineArtifacts reports what the running server's artifact storage can do.
func examineArtifacts(s bloom.BlobState) Finding {
	where := "the data directory"
	if s.Kind == bloom.BlobsS3 {
		where = "object storage"
	}
	f := Finding{Name: "artifacts", Status: Fine, Detail: "stored in " + where + ", which supports: " + strings.Join(s.Can, ", ")}
	if s.Kind == bloom.BlobsS3 && !s.CanDo("conditional_write") {
		f.Status, f.Fix = Doubtful, "artifacts do not need conditional writes, but bloom memory does: use a storage that supports If-Match for it"
	}
	return f
}

// examineWorkers reports which workers run tasks; what is wrong with them is reported as problems.
func examineWorkers(workers []bloom.Worker) Finding {
	names := workersWithClaude(workers)
	if len(names) == 0 {
		return Finding{"workers", Doubtful, "no worker with claude is online: tasks wait", "start one with bloom worker, or bloom up"}
	}
	return Finding{Name: "workers", Status: Fine, Detail: "online with claude: " + strings.Join(names, ", ")}
}

// examineServer reports whether a runtime answers, by how much this clock is ahead of its clock
// (nil when unknown), the findings, and the server's workers.
func examineServer(ctx context.Context, c DoctorConfig) (reached bool, skew *time.Duration, found []Finding, workers []bloom.Worker) {
	ctx, done := context.WithTimeout(ctx, doctorWait)
	defer done()
	through := http.DefaultTransport.(*http.Transport).Clone()
	through.TLSClientConfig = c.TLS
	defer through.CloseIdleConnections()
	api, err := client.New(c.URL, client.Options{APIKey: c.Key, Retry: client.NoRetry, HTTPClient: &http.Client{Transport: &dates{through, &skew}}})
	if err != nil {
		return false, skew, []Finding{{"server", Wrong, err.Error(), "set a URL like http://127.0.0.1:5000 with --url"}}, nil
	}
	health, err := api.Health(ctx)
	if err != nil {
		f, reached := examineNoHealth(c.URL, err)
		return reached, skew, append([]Finding{f}, examineProblems(ctx, api)...), nil
	}
	found = append(found, Finding{Name: "server", Status: Fine, Detail: fmt.Sprintf("%s is healthy (%s)", c.URL, health.Storage)})
	if health.Artifacts != nil && health.Artifacts.Connected { // otherwise it is reported as a problem
		found = append(found, examineArtifacts(*health.Artifacts))
	}
	if workers, err = api.Workers(ctx); err == nil {
		found = append(found, Finding{Name: "key", Status: Fine, Detail: "accepted"}, examineWorkers(workers))
		return true, skew, append(found, examineProblems(ctx, api)...), workers
	}
	return true, skew, append(found, examineRefusal(c, err)), nil
}

// examineProblems returns the problems that the running server reports; none if it does not answer
// or is too old to report them.
func examineProblems(ctx context.Context, api *client.Client) (found []Finding) {
	problems, err := api.Problems(ctx)
	if err != nil {
		return nil
	}
	for _, p := range problems.Problems {
		found = append(found, ofProblem(p))
	}
	return found
}

// examineNoHealth reports why the server returned no health report, and whether it answered at all.
func examineNoHealth(url string, err error) (f Finding, reached bool) {
	var untrusted *tls.CertificateVerificationError
	var unreachable *client.UnreachableError
	switch {
	case !errors.As(err, &unreachable):
		return Finding{"server", Wrong, fmt.Sprintf("%s answers, but is not healthy: %v", url, err), "look at the server's log"}, true
	case errors.As(err, &untrusted):
		return Finding{"server", Wrong, fmt.Sprintf("the certificate of %s is not trusted: %v", url, untrusted.Err),
			"replace the server's certificate (it reloads the files automatically), or set the authority with --ca-file"}, true
	case unreachable.Sent:
		return Finding{"server", Wrong, fmt.Sprintf("%s accepts connections but does not answer: %v", url, err), "look at the server's log"}, true
	}
	return Finding{"server", Wrong, "no runtime answers at " + url, "start one with bloom up, or choose another with --url"}, false
}

// dates measures by how much this clock is ahead of the server's.
type dates struct {
	through http.RoundTripper
	skew    **time.Duration
}

func (d *dates) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := d.through.RoundTrip(r)
	if err == nil {
		if t, err := http.ParseTime(res.Header.Get("Date")); err == nil {
			ahead := time.Since(t)
			*d.skew = &ahead
		}
	}
	return res, err
}
