package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// otlpRetries are the waits for a collector that is unavailable. A batch waits for at most a minute,
// while the next ones are collected.
var otlpRetries = retry.Policy{First: time.Second, Max: 15 * time.Second, Jitter: 0.3, Tries: 5}

// otlpClient sends spans to a collector with OTLP over HTTP, in protobuf. OpenTelemetry's own client
// compiles all of gRPC into the program, which neither of them uses.
type otlpClient struct {
	url    string
	header http.Header
	client http.Client
}

// newOTLPClient reads OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS and _TIMEOUT, and their variants for
// traces, which win (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
func newOTLPClient() (*otlpClient, error) {
	setting := func(name string) string {
		return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if endpoint == "" {
		endpoint = strings.TrimSuffix(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "/") + "/v1/traces"
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %q is not an http or https URL", endpoint)
	}
	c := &otlpClient{url: endpoint, header: http.Header{"Content-Type": {"application/x-protobuf"}}}
	c.client.Timeout = 10 * time.Second
	// The headers are often a key: they go nowhere else.
	c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if text := setting("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT: %q is not a number of milliseconds", text)
		}
		c.client.Timeout = time.Duration(ms) * time.Millisecond
	}
	for pair := range strings.SplitSeq(setting("HEADERS"), ",") {
		name, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case name == "" && !found:
		case !found || err != nil:
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %q is not NAME=VALUE", name)
		default:
			c.header.Set(strings.TrimSpace(name), value)
		}
	}
	return c, nil
}

// Start implements otlptrace.Client.
func (*otlpClient) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *otlpClient) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client.
func (c *otlpClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData and a collector's ExportTraceServiceRequest are the same bytes.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	_, err = retry.Do(ctx, otlpRetries, func() (struct{}, error) { return struct{}{}, c.post(ctx, body) })
	return err
}

func (c *otlpClient) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return retry.Permanent(err)
	}
	req.Header = c.header.Clone()
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection is used again
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("the collector answered %s", resp.Status)
	}
	if resp.StatusCode/100 != 2 {
		return retry.Permanent(fmt.Errorf("the collector answered %s", resp.Status))
	}
	return nil
}
