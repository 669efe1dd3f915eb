@_exported import RoundtableTestKit
@_exported import RoundtableTrials
