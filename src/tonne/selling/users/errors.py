"""What can go wrong around users and signing in."""

from tonne.platform.values.errors import Kind, TonneError


class SignInRefused(TonneError, kind=Kind.UNAUTHENTICATED, code="sign_in_refused"):
    # One message for an unknown address and a wrong password: strangers cannot learn who has an account.
    message = "The e-mail address or the password is wrong. Check both, or reset your password."


class CodeRefused(TonneError, kind=Kind.UNAUTHENTICATED, code="code_refused"):
    message = "This code is wrong or was used before. Enter the current code of your app, or a recovery code."


class PasskeyRefused(TonneError, kind=Kind.UNAUTHENTICATED, code="passkey_refused"):
    message = "The passkey was not accepted. Try again, or sign in with your password."


class PasskeyInvalid(TonneError, kind=Kind.INVALID, code="passkey_invalid"):
    message = "The passkey could not be added. Try again, or use another device."


class PasskeyNotFound(TonneError, kind=Kind.NOT_FOUND, code="passkey_not_found"):
    message = "You have no such passkey. It may have been removed already."


class PasskeysUnavailable(TonneError, kind=Kind.CONFLICT, code="passkeys_unavailable"):
    message = "Passkeys are not available at this address."


class SecondFactorNeeded(TonneError, kind=Kind.CONFLICT, code="second_factor_needed"):
    message = "Operators need a second factor. Add another passkey or an authenticator app before you remove this one."


class SignInTooOld(TonneError, kind=Kind.CONFLICT, code="sign_in_too_old"):
    message = "You signed in more than 30 minutes ago. For this change, sign out and sign in again."


class PasswordInvalid(TonneError, kind=Kind.INVALID, code="password_invalid"):
    message = "Choose a password of at least 12 characters."


class UserNotFound(TonneError, kind=Kind.NOT_FOUND, code="user_not_found"):
    message = "There is no user with this e-mail address."


class UserExists(TonneError, kind=Kind.CONFLICT, code="user_exists"):
    message = "There is already a user with this e-mail address."


class LinkExpired(TonneError, kind=Kind.NOT_FOUND, code="user_link_expired"):
    message = "This link has expired or was used before. Ask for a new one."


class RoleRefused(TonneError, kind=Kind.FORBIDDEN, code="role_refused"):
    message = "Your role does not allow this. Ask an owner or an admin of your organisation."


class LastOwner(TonneError, kind=Kind.CONFLICT, code="last_owner"):
    message = "An organisation needs an owner. Make another member an owner first."


class AlreadyMember(TonneError, kind=Kind.CONFLICT, code="already_member"):
    message = "This person is already a member of the organisation."
