// Package audit is the audit's own language: the actions, entities and actors of its entries, who asked
// for a change, and the hash chain of the entries with its verification. The files that the audit is
// exported to are in internal/auditlog.
package audit
