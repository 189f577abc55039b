package dispatch

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// AuditChain returns the part of the audit's hash chain after an entry's number.
func (s *Service) AuditChain(ctx context.Context, after int64, limit int) (bloom.ChainPart, error) {
	lag, err := s.store.AuditLag(ctx)
	if err != nil {
		return bloom.ChainPart{}, err
	}
	head, prev, links, err := s.store.AuditLinks(ctx, max(after, 0), bloom.Page{Limit: limit}.Size())
	if err != nil {
		return bloom.ChainPart{}, err
	}
	part := bloom.PartOf(head, prev, links)
	part.Exported, part.Branch = lag.LastExported, lag.Branch
	return part, nil
}

// Promoted records in the audit who made a node the leader of a project.
func (s *Service) Promoted(ctx context.Context, project, node, actor string) error {
	project, node = bloom.CleanText(project), bloom.CleanText(node)
	return s.store.AppendAudit(ctx, bloom.Audit{
		Action: bloom.ActionLeadershipPromote, EntityType: "project", EntityID: project, Actor: actor,
		Detail: node + " leads " + project,
		Data:   bloom.MustJSON(map[string]string{"primary_node_id": node}),
	})
}

// SyncRequested records in the audit who had an agent push or pull a project's
// memory. jobID is empty if the control plane's answer was lost.
func (s *Service) SyncRequested(ctx context.Context, kind, project, agent, jobID, actor string) error {
	project, agent = bloom.CleanText(project), bloom.CleanText(agent)
	detail := agent + " is to " + kind + " the memory of " + project
	if jobID == "" {
		detail = "Outcome unknown: membridge did not answer whether " + detail
	}
	return s.store.AppendAudit(ctx, bloom.Audit{
		Action: bloom.ActionSyncRequested, EntityType: "project", EntityID: project, Actor: actor, Detail: detail,
		Data: bloom.MustJSON(map[string]string{"kind": kind, "agent": agent, "job_id": bloom.CleanText(jobID)}),
	})
}

// Refused records in the audit a request for a change that was refused.
func (s *Service) Refused(ctx context.Context, route, actor, why string) error {
	return s.store.AppendAudit(ctx, bloom.Audit{
		Action: bloom.ActionRefused, EntityType: "route", EntityID: route, Actor: actor, Detail: why, Data: nil,
	})
}

// PromotionUnknown records in the audit who tried to make a node the leader of a
// project, without an answer of the control plane.
func (s *Service) PromotionUnknown(ctx context.Context, project, node, actor string) error {
	project, node = bloom.CleanText(project), bloom.CleanText(node)
	return s.store.AppendAudit(ctx, bloom.Audit{
		Action: bloom.ActionLeadershipPromote, EntityType: "project", EntityID: project, Actor: actor,
		Detail: "Outcome unknown: membridge did not answer whether " + node + " leads " + project,
		Data:   bloom.MustJSON(map[string]string{"primary_node_id": node, "outcome": "unknown"}),
	})
}
