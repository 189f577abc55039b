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
	ChainRemoved  = "removed"  // an entry is not there, and retention did not remove it
	ChainInserted = "inserted" // an entry is there that was never chained
	ChainDiffers  = "differs"  // database and files do not agree
)

// ChainFault is the first entry of the audit that is wrong.
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

// ChainVerifier checks a chain link by link, in the order of Seq. The zero value begins
// at the chain's beginning.
type ChainVerifier struct {
	last   ChainHead
	cut    int64 // the last place from which the chain starts anew
	signed int64 // up to where retention has said that it removed

	Entries   int64 // that are in the chain and as they were
	Unchained int64 // at the end, waiting to be chained
	First     int64 // Seq of the first of Entries
}

// Last is the end of what was checked.
func (v *ChainVerifier) Last() ChainHead { return v.last }

// Next checks the next link, which was read no earlier than head. Nil: it is right.
func (v *ChainVerifier) Next(head ChainHead, l ChainLink) *ChainFault {
	switch {
	case l.Entry == nil && l.Hash == "":
		return nil // removed between two looks
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
	if want := l.Entry.ChainHash(cmp.Or(v.last.Hash, NoHash)); l.Hash != want {
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

// sign notes what retention says of itself.
func (v *ChainVerifier) sign(a *Audit) {
	var cut AuditCut
	if a.Action == ActionAuditRemoved && a.EntityType == EntityRetention && json.Unmarshal(a.Data, &cut) == nil {
		v.signed = max(v.signed, cut.UpTo)
	}
}

// End checks the end: head was read before the last link, or there is none after it.
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

// ChainPage is how many links VerifyChain reads at once.
const ChainPage = 1000

// ChainReader is where a chain is read from; a store, or a database that a server uses.
type ChainReader interface {
	AuditLinks(ctx context.Context, after int64, limit int) (head ChainHead, prev ChainLink, links []ChainLink, err error)
}

// VerifyChain checks the whole chain. each, if not nil, gets every link that is right
// and may find a fault of its own. A fault is a *ChainFault; any other error means that
// the chain could not be read. The chain may grow and retention may remove meanwhile.
func VerifyChain(ctx context.Context, r ChainReader, each func(ChainLink) error) (*ChainVerifier, error) {
	v := &ChainVerifier{}
	for after := int64(0); ; {
		head, _, links, err := r.AuditLinks(ctx, after, ChainPage)
		if err != nil {
			return v, err
		}
		for _, l := range links {
			if after = l.Seq; l.Hash != "" && v.Unchained > 0 {
				// Those before have been chained meanwhile, and are read once more.
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
