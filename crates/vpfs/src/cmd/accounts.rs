//! Users and groups as arguments: by number or by name.

use vpfs_config::Account;
use vpfs_proxy::account_id;

/// Reads a user; fits clap's `value_parser`.
pub(super) fn user(text: &str) -> Result<u32, String> {
    id(text, Account::User)
}

/// Reads a group; fits clap's `value_parser`.
pub(super) fn group(text: &str) -> Result<u32, String> {
    id(text, Account::Group)
}

fn id(text: &str, account: fn(String) -> Account) -> Result<u32, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let account = account(text.to_owned());
    match account_id(&account) {
        Ok(Some(id)) => Ok(id),
        Ok(None) => Err(format!("there is no {account} on this host; give its number instead")),
        Err(error) => Err(format!("cannot look up {account}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_read() {
        assert_eq!((user("1000"), user("root"), group("root")), (Ok(1000), Ok(0), Ok(0)));
        let unknown = "there is no user nobody-of-this-name on this host; give its number instead";
        assert_eq!(user("nobody-of-this-name"), Err(unknown.to_owned()));
    }
}
