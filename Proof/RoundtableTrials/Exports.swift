@_exported import RoundtableProcesses
