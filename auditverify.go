package bloom

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
)

// Kinds of a ChainFault.
const (
	ChainChanged  = "changed"  // the hash is not that of the entry and the one before
	ChainRemoved  = "removed"  // an entry is missing, and retention did not remove it
	ChainInserted = "inserted" // an entry was added without being chained
	ChainDiffers  = "differs"  // database and files disagree
)

// ChainFault describes the first wrong entry of the audit.
type ChainFault struct {
	Seq    int64  `json:"seq"`
	Kind   string `json:"kind" enum:"changed,removed,inserted,differs"`
	Detail string `json:"detail"`
	File   string `json:"file,omitempty"`
}

// Error names the entry.
func (f *ChainFault) Error() string {
	return fmt.Sprintf("audit entry %d: %s: %s", f.Seq, f.Kind, f.Detail)
}

// ChainVerifier checks a chain link by link, in the order of Seq. The zero value starts at the
// beginning of the chain.
type ChainVerifier struct {
	last   ChainHead
	cut    int64 // the last removed entry; the chain continues from its hash
	signed int64 // up to which entry retention has recorded removals

	Entries   int64 // in the chain and intact
	Unchained int64 // at the end, not chained yet
	First     int64 // Seq of the first of Entries
}

// Last returns the end of the part that was checked.
func (v *ChainVerifier) Last() ChainHead { return v.last }

// Next checks the next link, which was read no earlier than head. It returns nil when the link is
// correct.
func (v *ChainVerifier) Next(head ChainHead, l ChainLink) *ChainFault {
	switch {
	case l.Entry == nil && l.Hash == "":
		return nil // removed between two reads
	case l.Entry == nil && l.Removed == 0:
		return &ChainFault{Seq: l.Seq, Kind: ChainRemoved, Detail: "its hash is in the chain, but the entry is not there"}
	case l.Entry == nil:
		v.last, v.cut = ChainHead{Seq: l.Seq, Hash: l.Hash}, l.Seq
		return nil
	case l.Hash == "" && l.Seq <= head.Seq:
		return &ChainFault{Seq: l.Seq, Kind: ChainInserted, Detail: fmt.Sprintf("it is not chained, though entries up to %d are", head.Seq)}
	case l.Hash == "":
		v.Unchained++
		v.sign(l.Entry)
		return nil
	}
	if want := ChainHash(cmp.Or(v.last.Hash, NoHash), Canonical(*l.Entry)); l.Hash != want {
		detail := "its hash does not follow from its content and from the beginning of the chain"
		if v.last.Seq > 0 {
			detail = fmt.Sprintf("its hash does not follow from its content and entry %d before it: it was changed, or entries between them were removed", v.last.Seq)
		}
		return &ChainFault{Seq: l.Seq, Kind: ChainChanged, Detail: detail}
	}
	if v.Entries == 0 {
		v.First = l.Seq
	}
	v.Entries++
	v.last = ChainHead{Seq: l.Seq, Hash: l.Hash}
	v.sign(l.Entry)
	return nil
}

// sign records what an entry of retention declares removed.
func (v *ChainVerifier) sign(a *Audit) {
	var cut struct {
		UpTo int64 `json:"up_to"` // of bloom.AuditCut
	}
	if a.Action == ActionAuditRemoved && a.EntityType == EntityRetention && json.Unmarshal(a.Data, &cut) == nil {
		v.signed = max(v.signed, cut.UpTo)
	}
}

// End checks the end of the chain. head was read before the last link, or no link follows it.
func (v *ChainVerifier) End(head ChainHead) *ChainFault {
	switch {
	case v.last.Seq < head.Seq:
		return &ChainFault{Seq: head.Seq, Kind: ChainRemoved, Detail: fmt.Sprintf("the chain ended with it, but there is nothing after entry %d", v.last.Seq)}
	case v.last.Seq == head.Seq && cmp.Or(v.last.Hash, NoHash) != cmp.Or(head.Hash, NoHash):
		return &ChainFault{Seq: head.Seq, Kind: ChainChanged, Detail: "the chain ended with another hash of it"}
	case v.cut > v.signed:
		return &ChainFault{Seq: v.cut, Kind: ChainRemoved, Detail: "it and entries before it are not there, and no entry of the retention says that it removed them"}
	}
	return nil
}

// ChainPage is the number of links that VerifyChain reads at once.
const ChainPage = 1000

// ChainReader reads a chain: a store, or a database that a server is using.
type ChainReader interface {
	AuditLinks(ctx context.Context, after int64, limit int) (head ChainHead, prev ChainLink, links []ChainLink, err error)
}

// VerifyChain checks the whole chain. It calls each, when not nil, with every correct link; each
// may return a fault of its own. A fault is a *ChainFault; any other error means that the chain
// could not be read. The chain may grow, and retention may remove entries, in the meantime.
func VerifyChain(ctx context.Context, r ChainReader, each func(ChainLink) error) (*ChainVerifier, error) {
	v := &ChainVerifier{}
	for after := int64(0); ; {
		head, _, links, err := r.AuditLinks(ctx, after, ChainPage)
		if err != nil {
			return v, err
		}
		for _, l := range links {
			if after = l.Seq; l.Hash != "" && v.Unchained > 0 {
				// Earlier entries have been chained in the meantime; read them again.
				after, v.Unchained = v.last.Seq, 0
				break
			}
			if fault := v.Next(head, l); fault != nil {
				return v, fault
			}
			if each != nil && l.Hash != "" {
				if err := each(l); err != nil {
					return v, err
				}
			}
		}
		if len(links) == 0 || v.last.Seq >= head.Seq && after > v.last.Seq && v.cut <= v.signed {
			if fault := v.End(head); fault != nil {
				return v, fault
			}
			return v, nil
		}
	}
}
