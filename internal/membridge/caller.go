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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom/internal/jsonnum"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

// maxAgentResponse bounds an agent's response, in bytes.
const maxAgentResponse = 64 << 10

// ErrAddressRefused is returned when a dial policy refuses an address.
var ErrAddressRefused = errors.New("the address is not allowed")

// DefaultDialPolicy refuses addresses that no agent has but a cloud's metadata service may have:
// link-local, multicast and unspecified ones, and metadataAddresses. It allows private and loopback addresses, where
// agents are.
func DefaultDialPolicy(a netip.Addr) error {
	a = embedded(a.Unmap().WithZone(""))
	if slices.Contains(metadataAddresses, a) || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return ErrAddressRefused
	}
	return nil
}

// metadataAddresses are those of clouds' metadata services that are not link-local.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"),    // Alibaba Cloud
	netip.MustParseAddr("168.63.129.16"),      // Azure
	netip.MustParseAddr("192.0.0.192"),        // Oracle Cloud
	netip.MustParseAddr("fd00:42::42"),        // Scaleway
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"), // Oracle Cloud
	netip.MustParseAddr("fd00:ec2::254"),      // Amazon EC2
	netip.MustParseAddr("fd20:ce::254"),       // Google Cloud
}

// embedded returns the IPv4 address in an address of NAT64 or 6to4, which leads there, else a.
func embedded(a netip.Addr) netip.Addr {
	raw := a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		return netip.AddrFrom4([4]byte(raw[12:]))
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return netip.AddrFrom4([4]byte(raw[2:6]))
	}
	return a
}

// newCaller returns the client that calls agents. Its dialer checks the address after the name was
// resolved, so that no name can lead to a refused address.
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

// SignatureHeader proves to an agent that a command comes from its control plane: t=<Unix
// seconds>,v1=<hex>, where v1 is the HMAC-SHA256 of "<t>.<body>" with the hex of the SHA-256 of the
// agent's token as the key. No key is sent to an agent's URL, except with Config.SyncAgentKey:
// anyone who can register an agent could have it sent anywhere.
const SignatureHeader = "X-MEMBRIDGE-SIGNATURE"

// Sign returns the value of SignatureHeader for a body sent at a time to the agent whose token has
// the digest.
func Sign(digest string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, []byte(digest))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%x", at.Unix(), mac.Sum(nil))
}

// callAgent posts a command to the agent's URL and returns its report. Only {"ok": true} counts as
// success, because anything may answer at the address. Its errors are safe to show.
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
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAgentResponse))
	if err != nil {
		return report, describe(err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return report, fmt.Errorf("it returned status %d", res.StatusCode)
	}
	return parseReport(answer)
}

// maxDetail bounds the text that is stored of an agent's response, in bytes.
const maxDetail = 4096

// agentRefusal is an agent's own report that it did not carry out a command.
type agentRefusal string

func (n agentRefusal) Error() string { return string(n) }

// parseReport decodes an agent's report on a command.
func parseReport(answer []byte) (report registry.JobReport, err error) {
	var said struct {
		OK     *bool  `json:"ok"`
		Detail string `json:"detail"`
		registry.JobOutput
	}
	if err := jsonnum.Unmarshal(answer, &said); err != nil || said.OK == nil {
		return report, errors.New("its response is not an agent's report")
	}
	report.JobOutput = said.JobOutput
	report.Stdout, report.Stderr = clean(said.Stdout), clean(said.Stderr)
	detail := clean(said.Detail[:min(len(said.Detail), maxDetail)])
	if !*said.OK {
		return report, agentRefusal(cmp.Or(detail, "it gave no reason"))
	}
	report.Detail = cmp.Or(detail, "Completed by the agent")
	return report, nil
}

// describe returns why a call failed, without its address or inner errors.
func describe(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, ErrAddressRefused):
		return ErrAddressRefused
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("it did not respond in time")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("the connection was refused")
	default:
		return errors.New("the connection failed")
	}
}
