package membridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom/internal/jsonnum"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

// maxAgentAnswer bounds what is read of an agent's answer.
const maxAgentAnswer = 64 << 10

// ErrAddressRefused is a dial policy's refusal.
var ErrAddressRefused = errors.New("the address is not allowed")

// DefaultDialPolicy refuses what an agent never is but a cloud's metadata
// service may be: link-local, multicast and unspecified addresses. Private and
// loopback ones are where agents live.
func DefaultDialPolicy(a netip.Addr) error {
	a = a.Unmap()
	if a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return ErrAddressRefused
	}
	return nil
}

// newCaller makes the client that calls agents. Its dialer checks the address
// after the name was resolved, so that no name can lead elsewhere.
func newCaller(c Config) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return ErrAddressRefused
		}
		return c.DialPolicy(ap.Addr())
	}}
	return &http.Client{
		Timeout: c.AgentTimeout,
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxConnsPerHost: 4, MaxIdleConns: 64, IdleConnTimeout: 30 * time.Second,
			TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 32 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// SignatureHeader proves to an agent that an order comes from its control plane:
// t=<Unix seconds>,v1=<hex>, where v1 is the HMAC-SHA256 of "<t>.<body>" under the
// hex of the SHA-256 of the agent's token. No key goes to an agent's URL, unless
// Config.SyncAgentKey says so: whoever may register could have it sent wherever
// they like.
const SignatureHeader = "X-MEMBRIDGE-SIGNATURE"

// Sign is the value of SignatureHeader for a body, sent at a time to the agent
// whose token has the digest.
func Sign(digest string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, []byte(digest))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%x", at.Unix(), mac.Sum(nil))
}

// callAgent posts an order to the agent's URL and returns its report on it. Only
// {"ok": true} says that it was carried out: anything may answer at an address.
// The error is a safe sentence.
func (s *Server) callAgent(ctx context.Context, agent registry.Agent, job registry.Job) (report registry.JobReport, err error) {
	body, err := json.Marshal(map[string]string{"type": "sync_" + string(job.Kind), "agent": agent.Name,
		"project": job.Project, "canonical_id": job.CanonicalID, "job_id": job.ID})
	if err != nil {
		return report, err
	}
	url := strings.TrimRight(agent.URL, "/") + "/sync/" + string(job.Kind)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return report, errors.New("its URL cannot be called")
	}
	req.Header.Set("Content-Type", "application/json")
	switch {
	case agent.Token != "":
		req.Header.Set(SignatureHeader, Sign(agent.Token, s.store.Now(), body))
	case s.cfg.SyncAgentKey:
		req.Header.Set(AgentHeader, s.cfg.AgentKey)
	}
	res, err := s.caller.Do(req)
	if err != nil {
		return report, describe(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAgentAnswer))
	if err != nil {
		return report, describe(err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return report, fmt.Errorf("it answered %d", res.StatusCode)
	}
	return judge(answer)
}

// maxSaid bounds what is kept of an agent's own words, in bytes.
const maxSaid = 4096

// agentsNo is an agent's own word that it did not carry an order out.
type agentsNo string

func (n agentsNo) Error() string { return string(n) }

// judge is an agent's report on an order, or why its answer is none.
func judge(answer []byte) (report registry.JobReport, err error) {
	var said struct {
		OK     *bool  `json:"ok"`
		Detail string `json:"detail"`
		registry.JobOutput
	}
	if err := jsonnum.Unmarshal(answer, &said); err != nil || said.OK == nil {
		return report, errors.New("its answer is not one of an agent's")
	}
	report.JobOutput = said.JobOutput
	report.Stdout, report.Stderr = clean(said.Stdout), clean(said.Stderr)
	detail := clean(said.Detail[:min(len(said.Detail), maxSaid)])
	if !*said.OK {
		return report, agentsNo(cmp.Or(detail, "it does not say why"))
	}
	report.Detail = cmp.Or(detail, "Done by the agent")
	return report, nil
}

// describe says why a call failed without its address or inner text.
func describe(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, ErrAddressRefused):
		return ErrAddressRefused
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("it did not answer in time")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("the connection was refused")
	default:
		return errors.New("the connection failed")
	}
}
