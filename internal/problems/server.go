package problems

import (
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// ofServer finds the problems of the server, of its machine and of the services that it uses.
func (f *facts) ofServer(b bloom.BlobState) {
	m := f.server
	if m.WritesFail != "" {
		f.add(bloom.Problem{Code: CodeWrites, Severity: bloom.SeverityError, Action: m.WritesFail})
	}
	if m.DiskLow {
		f.add(bloom.Problem{Code: CodeDisk, Severity: severe(m.FreeBytes < DiskVeryLow), Free: m.FreeBytes})
	}
	if left := m.CertExpires - f.now; m.CertExpires > 0 && left < certNear.Milliseconds() {
		p := bloom.Problem{Code: CodeCertificate, Severity: severe(left < certVeryNear.Milliseconds()), Until: m.CertExpires}
		if m.Domain != "" {
			p.Names = []string{m.Domain}
		}
		f.add(p)
	}
	f.named(bloom.SeverityWarning, CodeQuota, m.OverQuota)
	if !b.Connected {
		f.add(bloom.Problem{Code: CodeArtifacts, Severity: severe(b.Kind == bloom.BlobsLocal)})
	}
	if m.MembridgeFailures >= membridgeFail {
		f.add(bloom.Problem{Code: CodeMembridge, Severity: bloom.SeverityWarning})
	}
}

// ofKeys finds the keys that expire soon, and content that waits for its storage.
func (f *facts) ofKeys() {
	if f.displaced > 0 {
		f.add(bloom.Problem{Code: CodeArtifactsWait, Severity: bloom.SeverityWarning, Count: f.displaced, More: f.displaced == contract.MaxWaiting})
	}
	var names []string
	first := int64(0)
	for _, k := range f.keys {
		if k.RevokedAt == nil && k.ExpiresAt != nil && *k.ExpiresAt > f.now && *k.ExpiresAt-f.now < keyNear.Milliseconds() {
			names = append(names, k.Name)
			if first == 0 || *k.ExpiresAt < first {
				first = *k.ExpiresAt
			}
		}
	}
	if slices.Sort(names); len(names) > 0 {
		f.add(bloom.Problem{Code: CodeKeysExpire, Severity: bloom.SeverityWarning, Count: int64(len(names)), Names: names, Until: first})
	}
}
