// A program that imports Roundtable has all of it.
@_exported import RoundtableCore
@_exported import RoundtableDelivery
@_exported import RoundtableDerived
@_exported import RoundtableDiagnostics
@_exported import RoundtableFiles
@_exported import RoundtableGate
@_exported import RoundtableHistory
@_exported import RoundtableRoles
