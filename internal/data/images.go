package data

import "shoal/model"

// images are the samples of two idx files: images of one byte a pixel and their labels.
type images struct {
	*store
	files   [2]int // images, labels
	width   int    // pixels of a row and of a column
	classes int
	count   int
}

func openImages(s *store, shape Shape) (train, held Samples, err error) {
	a, err := newImages(s, trainImages, trainLabels, shape)
	if err != nil {
		return nil, nil, err
	}
	b, err := newImages(s, testImages, testLabels, shape)
	if err != nil {
		return nil, nil, err
	}
	if a.count == 0 {
		return nil, nil, s.errorf(trainImages, "byte 4: it has no images")
	}
	if b.count = min(b.count, shape.Eval); b.count == 0 {
		return a, nil, nil
	}
	return a, b, nil
}

func newImages(s *store, pictures, labels int, shape Shape) (*images, error) {
	dims, err := s.header(pictures, 3)
	if err != nil {
		return nil, err
	}
	if dims[1] != shape.Image || dims[2] != shape.Image {
		return nil, s.errorf(pictures, "byte 8: its images have %d x %d pixels, model.image is %d", dims[1], dims[2], shape.Image)
	}
	of, err := s.header(labels, 1)
	if err != nil {
		return nil, err
	}
	if of[0] != dims[0] {
		return nil, s.errorf(labels, "byte 4: it has %d labels, for %d images in %s", of[0], dims[0], s.manifest.Files[pictures].Name)
	}
	return &images{s, [2]int{pictures, labels}, shape.Image, shape.Classes, dims[0]}, nil
}

// header is the shape of an idx file.
func (s *store) header(file, dims int) ([]int, error) {
	size := s.manifest.Files[file].Size
	header := make([]byte, min(size, int64(idxHeader(dims))))
	if err := s.read(file, 0, header); err != nil {
		return nil, err
	}
	shape, err := parseIdx(header, size, dims)
	if err != nil {
		return nil, s.errorf(file, "%w", err)
	}
	return shape, nil
}

func (m *images) Len() int { return m.count }

// Spec is one image, row by row, and its label.
func (m *images) Spec() model.Spec { return model.Spec{Floats: m.width * m.width, Labels: 1} }

// Read gives Floats (N, width*width), normalised like digits, and Labels (N).
func (m *images) Read(indices []int, b *model.Batch) error {
	size := m.width * m.width
	b.N, b.Tokens = len(indices), b.Tokens[:0]
	b.Floats = resize(b.Floats, len(indices)*size)
	b.Labels = resize(b.Labels, len(indices))
	pixels, label := make([]byte, size), make([]byte, 1)
	for n, i := range indices {
		if i < 0 || i >= m.count {
			return m.errorf(m.files[0], "image %d is wanted, it has %d", i, m.count)
		}
		if err := m.read(m.files[0], int64(idxHeader(3))+int64(i)*int64(size), pixels); err != nil {
			return err
		}
		at := int64(idxHeader(1)) + int64(i)
		if err := m.read(m.files[1], at, label); err != nil {
			return err
		}
		if err := m.check(at, label[0]); err != nil {
			return err
		}
		out := b.Floats[n*size : (n+1)*size]
		for k, p := range pixels {
			out[k] = normal(int64(p) * white / 255)
		}
		b.Labels[n] = int32(label[0])
	}
	return nil
}

// Check reads all labels.
func (m *images) Check() error {
	first := int64(idxHeader(1))
	return m.pieces(m.files[1], first, first+int64(m.count), func(offset int64, b []byte) error {
		for k, label := range b {
			if err := m.check(offset+int64(k), label); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *images) check(offset int64, label byte) error {
	if int(label) < m.classes {
		return nil
	}
	return m.errorf(m.files[1], "byte %d: the label of image %d is %d, model.classes allows 0 to %d", offset, offset-int64(idxHeader(1)),
		label, m.classes-1)
}
