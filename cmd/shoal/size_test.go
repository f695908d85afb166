package main

import "testing"

func TestByteSize(t *testing.T) {
	for _, tc := range []struct {
		text string
		want int64 // 0 means refused
		back string
	}{
		{"512MiB", 512 << 20, "512MiB"},
		{"4GiB", 4 << 30, "4GiB"},
		{"1.5GiB", 3 << 29, "1536MiB"},
		{"4G", 4 << 30, "4GiB"},
		{"4gib", 4 << 30, "4GiB"},
		{"4g", 4 << 30, "4GiB"},
		{"300 mb", 300e6, "300000000"},
		{"1024TiB", 1 << 50, "1024TiB"},
		{"1025TiB", 0, ""},
		{"1e999", 0, ""},
		{"infinity", 0, ""},
		{"2GB", 2e9, "1953125KiB"},
		{" 2 GB ", 2e9, "1953125KiB"},
		{"1000B", 1000, "1000"},
		{"123456", 123456, "123456"},
		{"", 0, ""},
		{"GiB", 0, ""},
		{"0", 0, ""},
		{"-1GiB", 0, ""},
		{"4 gigs", 0, ""},
		{"nan", 0, ""},
		{"inf", 0, ""},
		{"0x10", 0, ""},
		{"1e300TiB", 0, ""},
	} {
		var s byteSize
		err := s.Set(tc.text)
		if tc.want == 0 {
			if err == nil {
				t.Errorf("%q was read as %d, want it refused", tc.text, s)
			}
			continue
		}
		if err != nil || int64(s) != tc.want || s.String() != tc.back {
			t.Errorf("%q was read as %d (%s, %v), want %d (%s)", tc.text, s, s.String(), err, tc.want, tc.back)
		}
	}
}
