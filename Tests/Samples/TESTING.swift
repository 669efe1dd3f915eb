import RoundtableTestKit
import RoundtableTestSupport
import Testing

var terms: SuspensionTerms { SuspensionTerms() }
