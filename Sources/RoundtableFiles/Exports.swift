// What options of this module name.
@_exported import enum RoundtableKernel.CommitDurability
