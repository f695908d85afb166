package peer

// refused is false: a browser doesn't say why a dial failed.
func refused(error) bool { return false }
