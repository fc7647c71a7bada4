package datadir

import "io/fs"

// Windows has access lists instead of modes: files inherit those of the user's folder.

func private(fs.FileInfo) bool          { return true }
func writableByOthers(fs.FileInfo) bool { return false }
func ownedByUs(fs.FileInfo) bool        { return true }
