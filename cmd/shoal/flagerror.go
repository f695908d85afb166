package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"shoal"
)

// wanted says what a flag takes whose own parser speaks of Go.
var wanted = map[string]string{
	"int":      "a whole number",
	"intSlice": "whole numbers separated by commas, as in 4,2,1,1",
	"uint64":   "a whole number from 0",
	"float64":  "a number",
	"bool":     "true or false",
	"duration": "a time, as in 90s or 10m",
}

// badFlag says which flag has a wrong value, and what is wanted.
func badFlag(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	f := invalid.GetFlag()
	if want := wanted[f.Value.Type()]; want != "" {
		return fmt.Errorf("--%s: %.100q is not allowed here, use %s", f.Name, strings.Trim(invalid.GetValue(), "[]"), want)
	}
	return fmt.Errorf("--%s: %w", f.Name, invalid.Unwrap())
}

// flagError names the flag that a field of a configuration came from.
func flagError(err *shoal.ConfigError) error {
	if err.Field == "" {
		return err
	}
	return fmt.Errorf("--%s: %w", err.Field, err.Err)
}
