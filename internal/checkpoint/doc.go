// Package checkpoint keeps checkpoints of a run in a folder, and reads them for any number of peers.
//
//	DIR/run.json                                whose checkpoints these are
//	DIR/step-000000020/unit-0003.rank-01.safetensors
//	                                            what one owner had of one unit: parameters, and AdamW's m and v, all float32
//	DIR/step-000000020/history.safetensors      the losses so far
//	DIR/step-000000020/manifest.json            written last: the position, and the SHA-256 of every file
//
// A folder without a manifest is partial: it is never read, and swept. Peers may share one DIR or have one each; one that
// is resumed from needs the files of all owners. Every file is written beside its place, synced and renamed.
package checkpoint
