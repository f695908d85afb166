//go:build !js

package peer

import (
	"context"
	"slices"
	"sync"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// maxRecords is how many records of the DHT a node keeps, of all runs together. One is some hundred bytes.
const maxRecords = 4096

// recordStore is a datastore in memory that forgets the oldest keys when it has too many: anybody can put records.
type recordStore struct {
	mu    sync.RWMutex
	all   *ds.MapDatastore
	most  int
	order []ds.Key // oldest first
}

var _ ds.Batching = (*recordStore)(nil)

func newRecordStore(most int) *recordStore {
	return &recordStore{all: ds.NewMapDatastore(), most: most}
}

func (r *recordStore) Put(ctx context.Context, key ds.Key, value []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, err := r.all.Has(ctx, key)
	if err != nil {
		return err
	}
	if !known {
		if len(r.order) == r.most {
			if err := r.all.Delete(ctx, r.order[0]); err != nil {
				return err
			}
			r.order = r.order[1:]
		}
		r.order = append(r.order, key)
	}
	return r.all.Put(ctx, key, value)
}

func (r *recordStore) Delete(ctx context.Context, key ds.Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = slices.DeleteFunc(r.order, func(k ds.Key) bool { return k == key })
	return r.all.Delete(ctx, key)
}

func (r *recordStore) Get(ctx context.Context, key ds.Key) ([]byte, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all.Get(ctx, key)
}

func (r *recordStore) Has(ctx context.Context, key ds.Key) (bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all.Has(ctx, key)
}

func (r *recordStore) GetSize(ctx context.Context, key ds.Key) (int, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all.GetSize(ctx, key)
}

func (r *recordStore) Query(ctx context.Context, q query.Query) (query.Results, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all.Query(ctx, q)
}

func (r *recordStore) Batch(context.Context) (ds.Batch, error) { return ds.NewBasicBatch(r), nil }
func (r *recordStore) Sync(context.Context, ds.Key) error      { return nil }
func (r *recordStore) Close() error                            { return nil }
