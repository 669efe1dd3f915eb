// For iOS.

import Foundation

@testable import Common

var privateURL: URL { url }

func showEntry() {}
func showAsPending() {}
