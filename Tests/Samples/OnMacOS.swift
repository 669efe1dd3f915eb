// For iOS.
