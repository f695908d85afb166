//go:build !unix

package data

import (
	"errors"
	"os"
)

func mapFile(*os.File, int64) (*inMemory, error) { return nil, errors.ErrUnsupported }
