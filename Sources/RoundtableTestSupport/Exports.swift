@_exported import RoundtableTestKit
