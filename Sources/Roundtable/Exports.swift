// A program that imports Roundtable has all of it.
@_exported import RoundtableFiles
