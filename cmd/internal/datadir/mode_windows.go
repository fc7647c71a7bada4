package datadir

import "io/fs"

// Windows has access lists instead of modes; what a user's folder has holds there.

func private(fs.FileInfo) bool          { return true }
func writableByOthers(fs.FileInfo) bool { return false }
func ownedByUs(fs.FileInfo) bool        { return true }
