package telemetry

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// AuditExported counts a file of the audit.
func (m *Metrics) AuditExported(entries int) {
	m.auditFiles.Inc()
	m.auditEntries.Add(float64(entries))
}

// DescribeAudit registers metrics of how far the audit's chain, and its export if there is one, are
// behind.
func (m *Metrics) DescribeAudit(s contract.AuditChainStore, exported bool) {
	a := &auditState{store: s, exported: exported,
		chain:  prometheus.NewDesc("bloom_audit_chain_lag_seconds", "Age of the oldest audit entry that is not chained yet; 0 without any.", nil, nil),
		export: prometheus.NewDesc("bloom_audit_export_lag_seconds", "Age of the oldest audit entry that is not exported yet; 0 without any.", nil, nil)}
	m.registry.MustRegister(a)
	if exported {
		m.registry.MustRegister(m.auditFiles, m.auditEntries)
	}
}

type auditState struct {
	store         contract.AuditChainStore
	exported      bool
	chain, export *prometheus.Desc
}

func (a *auditState) Describe(out chan<- *prometheus.Desc) {
	out <- a.chain
	out <- a.export
}

func (a *auditState) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	lag, err := a.store.AuditLag(ctx)
	if err != nil {
		return // see bloom_store_up
	}
	out <- prometheus.MustNewConstMetric(a.chain, prometheus.GaugeValue, lag.Unchained.Seconds())
	if a.exported {
		out <- prometheus.MustNewConstMetric(a.export, prometheus.GaugeValue, lag.Unexported.Seconds())
	}
}
