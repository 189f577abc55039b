package dispatch

import (
	"slices"

	"github.com/bloom-runtime/bloom"
)

// ofMachine returns the problems of the server's machine.
func (f *facts) ofMachine() (found []bloom.Problem) {
	if why := f.machine.WritesFail; why != "" {
		found = append(found, bloom.Problem{Code: bloom.ProblemWrites, Severity: bloom.SeverityError, Link: "/settings",
			Sentence: "The database refuses writes", Action: why + ". Acknowledged changes are safe, and the server recovers by itself."})
	}
	if m := f.machine; m.DiskLow {
		p := bloom.Problem{Code: bloom.ProblemDisk, Severity: bloom.SeverityWarning, Link: "/settings", Free: m.FreeBytes,
			Sentence: "The server's disk is almost full: " + gib(m.FreeBytes) + " free", Action: "Free some space, or have old tasks removed: see bloom retention --help."}
		if m.FreeBytes < diskVeryLow {
			p.Severity = bloom.SeverityError
		}
		found = append(found, p)
	}
	if m := f.machine; m.CertExpires > 0 && m.CertExpires-f.now < certNear.Milliseconds() {
		p := bloom.Problem{Code: bloom.ProblemCertificate, Severity: bloom.SeverityWarning, Link: "/settings", Until: m.CertExpires,
			Sentence: "The server's certificate expires on " + day(m.CertExpires), Action: "Replace its files; the server reloads them automatically. With --acme-domain, the log says why it was not renewed."}
		if m.Domain != "" {
			p.Names = []string{m.Domain}
		}
		if m.CertExpires <= f.now {
			p.Sentence = "The server's certificate expired on " + day(m.CertExpires)
		}
		if m.CertExpires-f.now < certVeryNear.Milliseconds() {
			p.Severity = bloom.SeverityError
		}
		found = append(found, p)
	}
	return found
}

// ofOthers returns the problems of services that the server uses.
func (f *facts) ofOthers() (found []bloom.Problem) {
	if !f.blobs.Connected && f.blobs.Kind == bloom.BlobsLocal {
		found = append(found, bloom.Problem{Code: bloom.ProblemArtifacts, Severity: bloom.SeverityError, Link: "/settings",
			Sentence: "The folder of artifacts cannot be used", Action: "Outputs over 256 KiB and files are refused until it can. Free some space, and make sure that the server's user can write to the folder artifacts in its data folder."})
	} else if !f.blobs.Connected {
		found = append(found, bloom.Problem{Code: bloom.ProblemArtifacts, Severity: bloom.SeverityWarning, Link: "/settings",
			Sentence: "The object storage cannot be reached", Action: "Tasks keep running; the server keeps their artifacts and uploads them later. Check the storage and its keys."})
	}
	if f.displaced > 0 {
		found = append(found, bloom.Problem{Code: bloom.ProblemArtifactsWait, Severity: bloom.SeverityWarning, Link: "/artifacts", Count: f.displaced, More: f.displaced == bloom.MaxWaiting,
			Sentence: counted(f.displaced, f.displaced == bloom.MaxWaiting, "upload") + " to the object storage " + verb(f.displaced, "is", "are") + " outstanding",
			Action:   "Artifacts and contexts are uploaded when the storage is reachable again, or at once with bloom artifacts move."})
	}
	if f.membridge.ConsecutiveFailures >= membridgeFail {
		found = append(found, bloom.Problem{Code: bloom.ProblemMembridge, Severity: bloom.SeverityWarning, Link: "/membridge",
			Sentence: "Membridge cannot be reached", Action: "Tasks keep running. Check its address and key in the settings."})
	}
	return found
}

// ofKeys returns the keys that expire soon.
func (f *facts) ofKeys() (found []bloom.Problem) {
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
	if n := int64(len(names)); n > 0 {
		slices.Sort(names)
		found = append(found, bloom.Problem{Code: bloom.ProblemKeysExpire, Severity: bloom.SeverityWarning, Link: "/settings", Count: n, Names: bounded20(names), Until: first,
			Sentence: counted(n, false, "key") + " " + verb(n, "expires", "expire") + " soon: " + some(names) + ", the first on " + day(first), Action: "Replace them before that; see bloom keys create."})
	}
	return found
}
