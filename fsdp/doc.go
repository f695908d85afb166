// Package fsdp trains a model.Model by fully sharded data parallelism (Rajbhandari et al. 2020, arXiv 1910.02054,
// stage 3; Zhao et al. 2023, arXiv 2304.11277): each member of a view keeps one shard of every unit's parameters,
// gradient and optimizer state, gathers a unit for the moment in which it computes it, and gives gradients back in
// pieces.
//
// Run is the caller's whole loop; step.go has the training step. The package knows no network: it declares the Comm
// that it needs. LocalMesh is a Comm inside one process. Decide is the leader's part, a pure function from what the
// members say when they are ready to the log entry that ends the attempt.
//
// Nothing here depends on the number of members: gradients are summed as integers (fixed.go; format.go has the other
// formats, and which of them give this up), samples are dealt by a plan that only says who computes a microbatch
// (plan.go), and every scalar of the update comes from the log (decide.go).
//
// # Members come and go
//
// Each vector is cut into fixed ranges (layout.go). A View says who owns each of them and who else holds it
// (placement.go); what this member holds lies in holding.go. Owners forward their sums, and the backups take the same
// update (forward.go). An attempt may end at any point (attempt.go): until the log has its Commit nobody has changed
// anything, and then everybody has what it takes to change it (apply.go). A range comes to another member by a fill, while
// training goes on (fill.go). Audits compare what holders have (audit.go).
package fsdp
