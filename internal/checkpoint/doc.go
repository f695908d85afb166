// Package checkpoint keeps checkpoints of a run in a folder, and reads them for any number of peers.
//
//	DIR/run.json                 whose checkpoints these are
//	DIR/lock                     which start of the run its living processes belong to
//	DIR/step-000000020/unit-0003.rank-01.k7qxw2ma.safetensors
//	                             what one owner had of one unit: parameters, and AdamW's m and v, all float32
//	DIR/step-000000020/history.k7qxw2ma.safetensors
//	                             the losses so far
//	DIR/step-000000020/manifest.json
//	                             written last: the position, and the SHA-256 of every file
//
// A folder without a manifest is partial: it is never read, and swept. Peers may share one DIR or have one each; one that
// is resumed from needs the files of all owners. Every file is written beside its place, synced and renamed. The letters in
// its name are its writer's own: a view may change while a checkpoint is saved, and then other members save it again.
package checkpoint
