// Package deptest holds the rules on what may import what, as a test. The rules are those of a program whose parts stay
// apart: a network that knows no training, a training engine that knows no network, models that know neither.
package deptest
