package postgres

// Supported lets tests check server versions that are not installed.
var Supported = supported

// Writes returns the statements that write rows, by what they write.
func Writes() map[string]string {
	texts := map[string]string{}
	add := func(rows, one, many string) { texts["one of the "+rows], texts["many "+rows] = one, many }
	add("new tasks", insertTasks.one, insertTasks.many)
	add("new leases", insertLeases.one, insertLeases.many)
	add("new artifacts", insertArtifacts.one, insertArtifacts.many)
	add("results", insertResults.one, insertResults.many)
	add("events", insertEvents.one, insertEvents.many)
	add("audit entries", insertAudits.one, insertAudits.many)
	add("links of the chain", insertLinks.one, insertLinks.many)
	add("ended streams", endStreams.one, endStreams.many)
	add("kept streams", keepStreams.one, keepStreams.many)
	add("workers", putWorkers.one, putWorkers.many)
	add("keys", putKeys.one, putKeys.many)
	add("sessions", putSessions.one, putSessions.many)
	add("changed tasks", updateTasks.one, updateTasks.many)
	add("changed leases", updateLeases.one, updateLeases.many)
	add("moved artifacts", moveArtifacts.one, moveArtifacts.many)
	add("contexts", putContexts.one, putContexts.many)
	add("imported contexts", fillContexts.one, fillContexts.many)
	return texts
}
