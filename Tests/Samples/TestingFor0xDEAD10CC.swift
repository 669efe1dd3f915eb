import Foundation
import RoundtableTestKit
import Testing

var writer: URL { fatalError() }
var database: URL { fatalError() }

func synchronize() throws {}
